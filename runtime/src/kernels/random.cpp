#include "meshrt/random.h"

#include "instruction_set.h"
#include "random_kernel.h"

namespace meshrt {
namespace {

// Calls run(offset in the local part, first global index, n) for every stretch of elements that follow one another in
// both.
template <class Run>
void for_each_run(std::span<const Part> parts, int64_t offset, int64_t index, const Run& run) {
  if (parts.empty()) return run(offset, index, int64_t(1));
  const Part& part = parts.front();
  if (parts.size() == 1) return run(offset, index * part.size + part.begin, part.end - part.begin);
  int64_t rest = 1;
  for (const Part& inner : parts.subspan(1)) rest *= inner.end - inner.begin;
  for (int64_t i = part.begin; i < part.end; ++i)
    for_each_run(parts.subspan(1), offset + (i - part.begin) * rest, index * part.size + i, run);
}

template <class T>
void fill(T* to, std::span<const Part> parts, const Draw& draw) {
  using Kernel = void (*)(const Draw&, int64_t, int64_t, T*);
  const auto kernel = choose<Kernel>(MESHRT_VARIANTS(draw_run<T>));
  for_each_run(parts, 0, 0, [&](int64_t offset, int64_t first, int64_t n) { kernel(draw, first, n, to + offset); });
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
