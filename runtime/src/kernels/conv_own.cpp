// conv_own.cpp: a convolution is a product of patches and weights: for a block of target elements what their windows
// take is put side by side, in the second-level cache, and multiplied by our own register tile (gemm_kernel.h), whose
// sums are one chain however rows are cut. Where each channel is a group of its own there is nothing to multiply by
// tiles: channels side by side are a vector.
#include "conv_own.h"

#include <type_traits>

#include "conv_kernel.h"
#include "gemm_kernel.h"
#include "instruction_set.h"
#include "meshrt/gemm.h"
#include "meshrt/poll.h"
#include "meshrt/threads.h"
#include "patches.h"
#include "scratch.h"
#include "scratch_places.h"

namespace meshrt {
namespace {

constexpr int64_t patch_bytes = int64_t(256) << 10, least_pixels = 48;
constexpr int64_t least_multiplications = int64_t(1) << 20, least_channels = 16;  // of a thread

template <class T>
T* scratch(ScratchPlace place, int64_t count) {
  return static_cast<T*>(Scratch::mine().bytes(place, static_cast<size_t>(count) * sizeof(T)));
}

/// Our own, for sums that are one chain; only where that is a call an element the library's.
template <class T, class In>
auto own_multiply() {
  using Kernel = void (*)(const Product<T, In>&);
#if defined(__x86_64__)
  if constexpr (std::is_same_v<In, Bfloat16>)
    if (instruction_set() >= InstructionSet::avx512_bf16) return Kernel(avx512_bf16::multiply<T, In>);
#endif
  if (instruction_set() == InstructionSet::portable) return Kernel(meshrt::multiply<T, In>);
  return choose<Kernel>(MESHRT_VARIANTS(multiply<T, In>));
}

template <class T, class In>
void multiply_own(const Product<T, In>& p) {
  static const auto own = own_multiply<T, In>();
  own(p);
}

template <class T, class In>
auto multiply_add() {
  static const auto chosen = choose<void (*)(int64_t, const In*, const In*, T*)>(MESHRT_VARIANTS(multiply_add<T, In>));
  return chosen;
}

/// How many patches are made at a time.
template <class T>
int64_t block_of(int64_t inner) {
  const int64_t fit = patch_bytes / (std::max<int64_t>(inner, 1) * int64_t(sizeof(T)));
  return std::max(least_pixels, fit / least_pixels * least_pixels);
}

/// From one side's channels to the other's, of one class.
template <class T, class In>
class Convolution {
 public:
  Convolution(const WindowDims& windows, const ConvExtents& extents, bool to_wide, const WindowClass& lines)
      : lines_(lines),
        extents_(extents),
        to_wide_(to_wide),
        from_(to_wide ? extents.out : extents.in),
        to_(to_wide ? extents.in : extents.out),
        kernel_{windows[0].kernel, windows[1].kernel, windows[2].kernel},
        target_(counts_held(windows, to_wide ? &WindowDim::wide : &WindowDim::narrow)),
        patches_(lines, counts_held(windows, to_wide ? &WindowDim::narrow : &WindowDim::wide), extents.batch,
                 extents.groups, from_) {}

  void run(const In* source, const In* w, T* target) const {
    if (patches_.pixels() == 0) return;
    if (from_ == 1 && to_ == 1 && extents_.groups > 1) return by_channels(source, w, target);
    for (int64_t g = 0; g < extents_.groups; ++g) group(g, source, w, target);
  }

 private:
  int64_t row() const { return extents_.groups * to_; }
  /// Pixels of the class lie one behind the other.
  bool is_whole() const {
    return lines_[0].target_step == 1 && lines_[1].target_step == 1 && lines_[2].target_step == 1;
  }
  T* pixel(T* target, int64_t sample, int64_t a, int64_t b, int64_t c) const {
    const auto at = [&](size_t i, int64_t t) { return lines_[i].target_begin + lines_[i].target_step * t; };
    return target + (((sample * target_[0] + at(0, a)) * target_[1] + at(1, b)) * target_[2] + at(2, c)) * row();
  }

  /// f(the place among the kernel's elements) for each tap of the class.
  template <class F>
  void for_each_kernel_element(F f) const {
    for (const int64_t i : lines_[0].taps)
      for (const int64_t j : lines_[1].taps)
        for (const int64_t k : lines_[2].taps) f((i * kernel_[1] + j) * kernel_[2] + k);
  }

  /// [taps * from, to] of a group.
  const In* weights(int64_t g, const In* w) const {
    if (!to_wide_ && extents_.groups == 1) return w;
    In* packed = scratch<In>(conv_weights_scratch, patches_.inner() * to_);
    In* at = packed;
    for_each_kernel_element([&](int64_t k) {
      const In* from = w + (k * extents_.groups + g) * extents_.in * extents_.out;
      for (int64_t i = 0; i < from_; ++i)
        for (int64_t j = 0; j < to_; ++j) *at++ = to_wide_ ? from[j * extents_.out + i] : from[i * extents_.out + j];
    });
    return packed;
  }

  void group(int64_t g, const In* source, const In* w, T* target) const {
    const int64_t inner = patches_.inner();
    Product<T, In> p;
    p.inner = inner, p.cols = to_;
    p.b = weights(g, w), p.b_row = to_;
    p.a_row = patches_.is_source() ? extents_.groups * from_ : inner;
    const int64_t least = least_multiplications / std::max<int64_t>(inner * to_, 1);
    share(patches_.pixels(), std::max(least_pixels, least),
          [&](int64_t begin, int64_t end) { stretch(g, begin, end, source, p, target); });
  }

  /// Pixels begin .. end of a group; `p` has its weights.
  void stretch(int64_t g, int64_t begin, int64_t end, const In* source, Product<T, In> p, T* target) const {
    const int64_t inner = patches_.inner();
    const bool in_place = patches_.is_source();
    const int64_t block = in_place ? end - begin : std::min(end - begin, block_of<In>(inner));
    In* const patch = in_place ? nullptr : scratch<In>(conv_patch_scratch, block * inner);
    T* const made = is_whole() ? nullptr : scratch<T>(conv_result_scratch, block * to_);
    for (int64_t first = begin; first < end; first += block) {
      poll();
      p.rows = std::min(block, end - first);
      if (in_place) p.a = source + first * p.a_row + g * from_;
      else patches_.gather(source, g, first, p.rows, patch), p.a = patch;
      p.c = made ? made : target + first * row() + g * to_, p.c_row = made ? to_ : row();
      multiply_own(p);
      if (!made) continue;
      const T* from = made;
      patches_.for_each_pixel(first, p.rows, [&](int64_t sample, int64_t a, int64_t b, int64_t c) {
        std::copy_n(from, to_, pixel(target, sample, a, b, c) + g * to_);
        from += to_;
      });
    }
  }

  void by_channels(const In* source, const In* w, T* target) const {
    std::vector<const In*> of_tap;
    for_each_kernel_element([&](int64_t k) { of_tap.push_back(w + k * extents_.groups); });
    const auto add = multiply_add<T, In>();
    const int64_t work = patches_.taps() * extents_.groups;
    patches_.share_pixels(work, [&](int64_t, int64_t sample, int64_t a, int64_t b, int64_t c) {
      T* const to = pixel(target, sample, a, b, c);
      std::fill_n(to, extents_.groups, T(0));
      patches_.for_each_tap(source, sample, a, b, c,
                            [&](size_t tap, const In* from) { add(extents_.groups, from, of_tap[tap], to); });
    });
  }

  const WindowClass& lines_;
  const ConvExtents& extents_;
  const bool to_wide_;
  const int64_t from_, to_;
  const std::array<int64_t, 3> kernel_, target_;
  const Patches<In> patches_;
};

template <class T, class In>
void from_side_to_side(const ConvCall<T, In>& call) {
  const bool to_wide = call.makes == ConvResult::x;
  for (const WindowClass& lines : window_classes(call.windows, to_wide))
    Convolution<T, In>(call.windows, call.extents, to_wide, lines).run(call.first, call.second, call.result);
}

/// w [taps, channels], of which each is a group of its own.
template <class T, class In>
void weights_by_channels(const Patches<In>& patches, int64_t channels, const In* x, const In* y, T* w) {
  const auto add = multiply_add<T, In>();
  std::fill_n(w, patches.taps() * channels, T(0));
  share(channels, least_channels, [&](int64_t begin, int64_t end) {
    const In* of = y + begin;
    patches.for_each_pixel(0, patches.pixels(), [&](int64_t sample, int64_t a, int64_t b, int64_t c) {
      patches.for_each_tap(x, sample, a, b, c, [&](size_t tap, const In* from) {
        add(end - begin, from + begin, of, w + static_cast<int64_t>(tap) * channels + begin);
      });
      of += channels;
    });
  });
}

template <class T, class In>
void weights(const ConvCall<T, In>& call) {
  const auto& [makes, windows, extents, x, y, w] = call;
  const auto [batch, groups, in, out] = extents;
  const WindowClass lines = window_classes(windows, false).front();
  const Patches<In> patches(lines, counts_held(windows, &WindowDim::wide), batch, groups, in);
  if (in == 1 && out == 1 && groups > 1) return weights_by_channels(patches, groups, x, y, w);
  const int64_t pixels = patches.pixels(), inner = patches.inner();
  const bool in_place = patches.is_source();
  const int64_t block = in_place ? pixels : std::min(pixels, block_of<In>(inner));
  In* const patch = in_place ? nullptr : scratch<In>(conv_patch_scratch, block * inner);
  for (int64_t g = 0; g < groups; ++g) {
    T* const sum = groups == 1 ? w : scratch<T>(conv_result_scratch, inner * out);
    if (pixels == 0) std::fill_n(sum, inner * out, T(0));
    Product<T, In> p;
    p.rows = inner, p.cols = out;
    p.a_row = 1, p.a_col = in_place ? groups * in : inner;
    p.b_row = groups * out;
    p.c = sum, p.c_row = out;
    for (int64_t first = 0; first < pixels; first += block) {
      poll();
      p.inner = std::min(block, pixels - first);
      if (in_place) p.a = x + first * p.a_col + g * in;
      else p.a = patch;
      if (!in_place)
        share(p.inner, least_pixels, [&, x = x](int64_t begin, int64_t end) {
          patches.gather(x, g, first + begin, end - begin, patch + begin * inner);
        });
      p.b = y + first * p.b_row + g * out;
      p.accumulate = first > 0;
      const int64_t least = least_multiplications / std::max<int64_t>(p.inner * out, 1);
      share(inner, std::max(least_pixels, least), [&, out = out](int64_t begin, int64_t end) {
        Product<T, In> rows = p;
        rows.rows = end - begin, rows.a += begin, rows.c += begin * out;
        multiply_own(rows);
      });
    }
    if (groups == 1) continue;
    for (int64_t k = 0; k < patches.taps(); ++k)
      std::copy_n(sum + k * in * out, in * out, w + (k * groups + g) * in * out);
  }
}

}  // namespace

template <class T, class In>
void convolve_own(const ConvCall<T, In>& call) {
  if (call.makes == ConvResult::w) weights(call);
  else from_side_to_side(call);
}

template void convolve_own(const ConvCall<float>&);
template void convolve_own(const ConvCall<double>&);
template void convolve_own(const ConvCall<float, Bfloat16>&);
template void convolve_own(const ConvCall<float, Float16>&);

}  // namespace meshrt
