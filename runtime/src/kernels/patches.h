// patches.h: what windows take of a tensor, side by side: the left operand of the product that a convolution is.
#pragma once
#include <algorithm>
#include <cstdint>

#include "meshrt/threads.h"
#include "window_lines.h"

namespace meshrt {

/// Of a source [batch, s0, s1, s2, groups, channels] the elements that each target element ("pixel") of one class
/// takes: [pixels, taps, channels] of one group. Pixels count over batch and the class's lines, the last fastest.
template <class T>
class Patches {
 public:
  Patches(const WindowClass& lines, std::array<int64_t, 3> source, int64_t batch, int64_t groups, int64_t channels)
      : lines_(lines), source_(source), batch_(batch), groups_(groups), channels_(channels) {
    const std::vector<int64_t>& bases = lines[2].bases;
    for (size_t i = 1; i < bases.size(); ++i) in_a_row_ = in_a_row_ && bases[i] == bases[i - 1] + 1;
    in_a_row_ = in_a_row_ && groups == 1;
  }

  int64_t taps() const { return count(0) * count(1) * count(2); }
  int64_t inner() const { return taps() * channels_; }
  int64_t pixels() const { return batch_ * lines_[0].count * lines_[1].count * lines_[2].count; }

  /// The patches are the source itself: pixel p's begins p * groups * channels further.
  bool is_source() const {
    for (size_t i = 0; i < 3; ++i) {
      const WindowLine& line = lines_[i];
      const bool same = line.bases.size() == 1 && line.bases[0] == 0 && line.source_step == 1 &&
                        line.count == source_[i] && line.source_begin == 0 && line.source_end == line.count;
      if (!same) return false;
    }
    return true;
  }

  /// f(pixel's place in batch, and along each line), for pixels first .. first + n.
  template <class F>
  void for_each_pixel(int64_t first, int64_t n, F f) const {
    if (n == 0) return;  // of a rank that owns none there are no lines
    int64_t rest = first;
    int64_t c = rest % lines_[2].count, b = (rest /= lines_[2].count) % lines_[1].count,
            a = (rest /= lines_[1].count) % lines_[0].count, sample = rest / lines_[0].count;
    for (int64_t i = 0; i < n; ++i) {
      f(sample, a, b, c);
      if (++c < lines_[2].count) continue;
      c = 0;
      if (++b < lines_[1].count) continue;
      b = 0;
      if (++a < lines_[0].count) continue;
      a = 0, ++sample;
    }
  }

  /// f(pixel, its place in batch, and along each line) for all pixels, on all threads of the rank. `work`: how many
  /// elements a pixel takes.
  template <class F>
  void share_pixels(int64_t work, F f) const {
    constexpr int64_t least = int64_t(1) << 14;
    share(pixels(), least / std::max<int64_t>(work, 1) + 1, [&](int64_t begin, int64_t end) {
      int64_t pixel = begin;
      for_each_pixel(begin, end - begin,
                     [&](int64_t sample, int64_t a, int64_t b, int64_t c) { f(pixel++, sample, a, b, c); });
    });
  }

  /// f(which tap of the class, its source element), for those of a pixel that there are.
  template <class F>
  void for_each_tap(const T* source, int64_t sample, int64_t a, int64_t b, int64_t c, F f) const {
    for (size_t i = 0; i < lines_[0].bases.size(); ++i) {
      if (!lines_[0].inside(a, i)) continue;
      for (size_t j = 0; j < lines_[1].bases.size(); ++j) {
        if (!lines_[1].inside(b, j)) continue;
        const T* row = source + this->row(sample, a, i, b, j);
        for (size_t k = 0; k < lines_[2].bases.size(); ++k)
          if (lines_[2].inside(c, k)) f((i * lines_[1].bases.size() + j) * lines_[2].bases.size() + k, row + at(c, k));
      }
    }
  }

  /// to [n, taps, channels] = the patches of pixels first .. in a group, zeros where there is nothing.
  void gather(const T* source, int64_t group, int64_t first, int64_t n, T* to) const {
    for_each_pixel(first, n, [&](int64_t sample, int64_t a, int64_t b, int64_t c) {
      for (size_t i = 0; i < lines_[0].bases.size(); ++i)
        for (size_t j = 0; j < lines_[1].bases.size(); ++j, to += count(2) * channels_) {
          if (lines_[0].inside(a, i) && lines_[1].inside(b, j))
            gather_row(source + row(sample, a, i, b, j) + group * channels_, c, to);
          else std::fill_n(to, count(2) * channels_, T(0));
        }
    });
  }

 private:
  int64_t count(size_t line) const { return static_cast<int64_t>(lines_[line].bases.size()); }
  int64_t row(int64_t sample, int64_t a, size_t i, int64_t b, size_t j) const {
    const int64_t s0 = lines_[0].source_step * a + lines_[0].bases[i],
                  s1 = lines_[1].source_step * b + lines_[1].bases[j];
    return ((sample * source_[0] + s0) * source_[1] + s1) * source_[2] * groups_ * channels_;
  }
  int64_t at(int64_t c, size_t k) const {
    return (lines_[2].source_step * c + lines_[2].bases[k]) * groups_ * channels_;
  }

  void gather_row(const T* row, int64_t c, T* to) const {
    const WindowLine& line = lines_[2];
    if (in_a_row_ && count(2) > 0) {
      const int64_t begin = line.source_step * c + line.bases[0], end = begin + count(2);
      const int64_t from = std::clamp(line.source_begin, begin, end), past = std::clamp(line.source_end, from, end);
      std::fill_n(to, (from - begin) * channels_, T(0));
      std::copy_n(row + from * channels_, (past - from) * channels_, to + (from - begin) * channels_);
      std::fill_n(to + (past - begin) * channels_, (end - past) * channels_, T(0));
      return;
    }
    for (size_t k = 0; k < line.bases.size(); ++k, to += channels_) {
      if (line.inside(c, k)) std::copy_n(row + at(c, k), channels_, to);
      else std::fill_n(to, channels_, T(0));
    }
  }

  const WindowClass& lines_;
  std::array<int64_t, 3> source_;
  int64_t batch_, groups_, channels_;
  bool in_a_row_ = true;  // what a pixel takes along the last line lies in one piece
};

}  // namespace meshrt
