#include "conv_onednn.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "conv_primitive.h"
#include "meshrt/poll.h"
#include "meshrt/threads.h"
#include "scratch.h"
#include "scratch_places.h"
#include "window_region.h"

namespace meshrt {
namespace {

constexpr int64_t piece_multiplications = int64_t(1) << 21;  // a hundredth of which it costs to call oneDNN
constexpr int64_t most_sums = 8, most_bytes_of_sums = int64_t(32) << 20;  // of weights, before they are added up
constexpr int64_t least_samples = 16;                                     // fewer are cut along the slowest dim too

float* scratch(ScratchPlace place, size_t bytes) {
  return static_cast<float*>(Scratch::mine().bytes(place, std::max<size_t>(bytes, 1)));
}

/// to [count] = from [count], and its end.
template <class In>
float* widen(const In* from, int64_t count, float* to) {
  return std::transform(from, from + count, to, [](In x) { return static_cast<float>(x); });
}

/// One side's tensor as the rank holds it: [batch, held.., channels].
struct Side {
  std::array<int64_t, 3> held;
  int64_t channels;

  Side(const WindowDims& windows, Held WindowDim::*side, int64_t channels)
      : held{(windows[0].*side).count, (windows[1].*side).count, (windows[2].*side).count}, channels(channels) {}
  int64_t row() const { return held[2] * channels; }
  int64_t sample() const { return held[0] * held[1] * row(); }
};

/// Some samples, and of each dim a stretch of what is held.
struct Box {
  Stretch samples;
  std::array<Stretch, 3> dims;

  int64_t elements(int64_t channels) const {
    return samples.count * dims[0].count * dims[1].count * dims[2].count * channels;
  }
  /// It lies in one piece.
  bool is_whole(const Side& side) const {
    bool several = samples.count > 1;  // of what lies outside of this dim
    for (size_t i = 0; i < dims.size(); ++i) {
      if (several && dims[i].count != side.held[i]) return false;
      several = several || dims[i].count > 1;
    }
    return true;
  }
  int64_t begin(const Side& side) const { return row(side, 0, 0, 0); }
  int64_t row(const Side& side, int64_t sample, int64_t a, int64_t b) const {
    return (((samples.begin + sample) * side.held[0] + dims[0].begin + a) * side.held[1] + dims[1].begin + b) *
               side.row() +
           dims[2].begin * side.channels;
  }
  /// f(place of a row in the tensor), as they lie one behind the other in a copy of the box.
  template <class F>
  void for_each_row(const Side& side, F f) const {
    for (int64_t sample = 0; sample < samples.count; ++sample)
      for (int64_t a = 0; a < dims[0].count; ++a)
        for (int64_t b = 0; b < dims[1].count; ++b) f(row(side, sample, a, b));
  }
};

/// What one thread computes at a time. Without a primitive its windows meet nothing.
struct Piece {
  Box x, y;
  Box target;  ///< of the side that is made: what the piece answers for; beyond its x, or y, are zeros
  const ConvPrimitive* primitive = nullptr;
  int64_t weights = 0;  ///< where its weights begin among those of all primitives
};

template <class In>
class OneDnnConvolution {
 public:
  OneDnnConvolution(const OneDnn& dnn, const ConvCall<float, In>& call)
      : dnn_(dnn),
        call_(call),
        x_(call.windows, &WindowDim::wide, call.extents.groups * call.extents.in),
        y_(call.windows, &WindowDim::narrow, call.extents.groups * call.extents.out),
        made_(call.makes == ConvResult::x ? x_ : y_) {
    while (cut_ < 2 && made_.held[cut_] == 1) ++cut_;
  }

  /// Whether there is a primitive for every piece.
  bool plan() {
    const auto [samples, rows] = sizes_of_pieces();
    for (int64_t sample = 0; sample < call_.extents.batch; sample += samples)
      for (int64_t row = 0; row < made_.held[cut_]; row += rows) {
        const Stretch some{sample, std::min(samples, call_.extents.batch - sample)},
            part{row, std::min(rows, made_.held[cut_] - row)};
        if (!add(some, part)) return false;
      }
    return true;
  }

  void run() {
    if (call_.makes == ConvResult::w) return sum_weights();
    float* const weights = scratch(conv_weights_scratch, static_cast<size_t>(weights_bytes_));
    const float* const plain = whole_weights();
    for (const Piece& piece : firsts_) piece.primitive->reorder(plain, weights + piece.weights);
    for_each_piece([&](const Piece& piece) { side(piece, weights + piece.weights); });
  }

 private:
  struct Sizes {
    int64_t samples, rows;
  };
  /// So many samples, or rows of one sample along the slowest dim, are a piece.
  Sizes sizes_of_pieces() const {
    const int64_t work = multiplications(call_.windows, call_.extents);
    int64_t wanted = std::max<int64_t>(work / piece_multiplications, 1);
    if (call_.makes == ConvResult::w) {
      const int64_t bytes = elements_of_weights() * int64_t(sizeof(float));
      wanted = std::min({wanted, most_sums, std::max<int64_t>(most_bytes_of_sums / bytes, 1)});
    }
    const int64_t batch = call_.extents.batch, rows = made_.held[cut_];
    if (wanted <= batch) return {(batch + wanted - 1) / wanted, rows};
    if (batch >= least_samples) return {1, rows};
    const int64_t parts = (std::min(wanted, least_samples) + batch - 1) / batch;
    // Whole strides: then pieces are alike.
    const int64_t step = call_.makes == ConvResult::x ? call_.windows[cut_].stride : 1;
    return {1, ((rows + parts - 1) / parts + step - 1) / step * step};
  }

  bool add(Stretch samples, Stretch rows) {
    Piece piece;
    piece.x.samples = piece.y.samples = piece.target.samples = samples;
    ConvShape shape{call_.makes, call_.extents, {}};
    shape.extents.batch = samples.count;
    bool is_empty = false;
    for (size_t i = 0; i < 3; ++i) {
      const WindowDim& window = call_.windows[i];
      const Stretch target = i == cut_ ? rows : Stretch{0, made_.held[i]};
      const WindowRegion region =
          call_.makes == ConvResult::x ? region_of_wide(window, target) : region_of_narrow(window, target);
      piece.x.dims[i] = region.wide, piece.y.dims[i] = region.narrow, piece.target.dims[i] = target;
      shape.dims[i] = {region.wide.count, region.narrow.count, window.kernel, window.stride,
                       window.dilation,   region.before,       region.after};
      is_empty = is_empty || region.is_empty();
    }
    if (!is_empty) {
      piece.primitive = ConvPrimitive::of(dnn_, shape);
      if (!piece.primitive || !place_weights(piece)) return false;
    }
    pieces_.push_back(piece);
    return true;
  }

  /// Primitives that read weights alike share them; sums of weights have to lie alike.
  bool place_weights(Piece& piece) {
    for (const Piece& other : firsts_)
      if (other.primitive->has_weights_of(*piece.primitive)) {
        piece.weights = other.weights;
        return true;
      }
    if (call_.makes == ConvResult::w && !firsts_.empty()) return false;
    constexpr int64_t line = 64;
    piece.weights = weights_bytes_ / int64_t(sizeof(float));
    weights_bytes_ += (static_cast<int64_t>(piece.primitive->weights_bytes()) + line - 1) / line * line;
    firsts_.push_back(piece);
    return true;
  }

  template <class F>
  void for_each_piece(F f) const {
    share(static_cast<int64_t>(pieces_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        poll();
        f(pieces_[static_cast<size_t>(i)]);
      }
    });
  }

  int64_t elements_of_weights() const {
    int64_t count = call_.extents.groups * call_.extents.in * call_.extents.out;
    for (const WindowDim& window : call_.windows) count *= window.kernel;
    return count;
  }

  const float* whole_weights() const {
    if constexpr (std::is_same_v<In, float>) return call_.second;
    else {
      const int64_t count = elements_of_weights();
      float* const copy = scratch(conv_result_scratch, static_cast<size_t>(count) * sizeof(float));
      widen(call_.second, count, copy);
      return copy;
    }
  }

  /// The box of a tensor, where it lies or as a copy.
  static const float* read(const In* tensor, const Side& side, const Box& box, ScratchPlace place) {
    if constexpr (std::is_same_v<In, float>)
      if (box.is_whole(side)) return tensor + box.begin(side);
    const int64_t row = box.dims[2].count * side.channels;
    float* const copy = scratch(place, static_cast<size_t>(box.elements(side.channels)) * sizeof(float));
    float* to = copy;
    box.for_each_row(side, [&](int64_t at) { to = widen(tensor + at, row, to); });
    return copy;
  }

  void side(const Piece& piece, const float* weights) const {
    const bool makes_x = call_.makes == ConvResult::x;
    const Box& box = makes_x ? piece.x : piece.y;
    const auto same = [](const Stretch& a, const Stretch& b) { return a.begin == b.begin && a.count == b.count; };
    const bool is_all =
        piece.primitive && std::equal(box.dims.begin(), box.dims.end(), piece.target.dims.begin(), same);
    float* const target = call_.result + piece.target.begin(made_);
    if (!is_all) std::fill_n(target, piece.target.elements(made_.channels), 0.0f);  // it lies in one piece
    if (!piece.primitive) return;
    const float* source = makes_x ? read(call_.first, y_, piece.y, conv_patch_scratch)
                                  : read(call_.first, x_, piece.x, conv_patch_scratch);
    void* const own = scratch(conv_library_scratch, piece.primitive->scratch_bytes());
    if (box.is_whole(made_)) return piece.primitive->run(source, weights, call_.result + box.begin(made_), own);
    const float* from = scratch(conv_result_scratch, static_cast<size_t>(box.elements(made_.channels)) * sizeof(float));
    piece.primitive->run(source, weights, const_cast<float*>(from), own);
    const int64_t row = box.dims[2].count * made_.channels;
    box.for_each_row(made_, [&](int64_t at) { std::copy_n(from, row, call_.result + at), from += row; });
  }

  /// Each piece's weights, then their sum in order of the pieces.
  void sum_weights() {
    std::erase_if(pieces_, [](const Piece& piece) { return !piece.primitive; });
    if (pieces_.empty()) return static_cast<void>(std::fill_n(call_.result, elements_of_weights(), 0.0f));
    const int64_t each_count = weights_bytes_ / int64_t(sizeof(float));
    float* const sums = scratch(conv_weights_scratch, pieces_.size() * static_cast<size_t>(weights_bytes_));
    for_each_piece([&](const Piece& piece) {
      float* const sum = sums + (&piece - pieces_.data()) * each_count;
      const float *x = read(call_.first, x_, piece.x, conv_patch_scratch),
                  *y = read(call_.second, y_, piece.y, conv_result_scratch);
      piece.primitive->run(x, y, sum, scratch(conv_library_scratch, piece.primitive->scratch_bytes()));
    });
    constexpr int64_t least = int64_t(1) << 14;
    share(each_count, least, [&](int64_t begin, int64_t end) {
      for (size_t piece = 1; piece < pieces_.size(); ++piece) {
        const float* const other = sums + static_cast<int64_t>(piece) * each_count;
        for (int64_t i = begin; i < end; ++i) sums[i] += other[i];
      }
    });
    pieces_.front().primitive->reorder(sums, call_.result);
  }

  const OneDnn& dnn_;
  const ConvCall<float, In>& call_;
  const Side x_, y_, made_;
  size_t cut_ = 0;  // the slowest dim of the result that has more than one element
  std::vector<Piece> pieces_;
  std::vector<Piece> firsts_;  // of those that have weights alike
  int64_t weights_bytes_ = 0;
};

}  // namespace

template <class In>
bool convolve_onednn(const OneDnn& dnn, const ConvCall<float, In>& call) {
  if (multiplications(call.windows, call.extents) == 0) return false;
  for (const WindowDim& window : call.windows)
    if (window.wide.count == 0) return false;
  OneDnnConvolution<In> convolution(dnn, call);
  if (!convolution.plan()) return false;
  convolution.run();
  return true;
}

template bool convolve_onednn(const OneDnn&, const ConvCall<float>&);
template bool convolve_onednn(const OneDnn&, const ConvCall<float, Bfloat16>&);
template bool convolve_onednn(const OneDnn&, const ConvCall<float, Float16>&);

}  // namespace meshrt
