#include "meshrt/random.h"

#include "instruction_set.h"
#include "meshrt/threads.h"
#include "random_kernel.h"

namespace meshrt {
namespace {

/// Which of all rows of the whole tensor the `row`-th of the part is.
int64_t whole_row(std::span<const Part> outer, int64_t row) {
  int64_t whole = 0, step = 1;
  for (size_t d = outer.size(); d-- > 0;) {
    const int64_t length = outer[d].end - outer[d].begin;
    whole += (outer[d].begin + row % length) * step;
    row /= length;
    step *= outer[d].size;
  }
  return whole;
}

template <class T>
void fill(T* to, std::span<const Part> parts, const Draw& draw) {
  using Kernel = void (*)(const Draw&, int64_t, int64_t, T*);
  const auto kernel = choose<Kernel>(MESHRT_VARIANTS(draw_run<T>));
  constexpr Part one{1, 0, 1};
  const std::span<const Part> outer = parts.first(parts.empty() ? 0 : parts.size() - 1);
  const Part last = parts.empty() ? one : parts.back();
  const int64_t length = last.end - last.begin;
  int64_t rows = 1;
  for (const Part& part : outer) rows *= part.end - part.begin;
  share_each(rows, length, enough(elements_of_a_number), [&](int64_t row, int64_t begin, int64_t end) {
    kernel(draw, whole_row(outer, row) * last.size + last.begin + begin, end - begin, to + row * length + begin);
  });
}

}  // namespace

template <class T>
void fill_uniform(T* to, std::span<const Part> parts, RandomKey key, double low, double high) {
  fill(to, parts, {Distribution::uniform, key, low, high});
}

template <class T>
void fill_normal(T* to, std::span<const Part> parts, RandomKey key, double mean, double deviation) {
  fill(to, parts, {Distribution::normal, key, mean, deviation});
}

template <class T>
void fill_truncated_normal(T* to, std::span<const Part> parts, RandomKey key, double mean, double deviation) {
  fill(to, parts, {Distribution::truncated_normal, key, mean, deviation});
}

template void fill_uniform(float*, std::span<const Part>, RandomKey, double, double);
template void fill_uniform(double*, std::span<const Part>, RandomKey, double, double);
template void fill_normal(float*, std::span<const Part>, RandomKey, double, double);
template void fill_normal(double*, std::span<const Part>, RandomKey, double, double);
template void fill_truncated_normal(float*, std::span<const Part>, RandomKey, double, double);
template void fill_truncated_normal(double*, std::span<const Part>, RandomKey, double, double);

}  // namespace meshrt
