#include "meshrt/gemm.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "blas.h"
#include "gemm_kernel.h"
#include "instruction_set.h"
#include "meshrt/failure.h"
#include "meshrt/profile.h"

namespace meshrt {
namespace {

// What MESHRT_GEMM asks for: null for our own kernels.
std::unique_ptr<const Blas> chosen_blas() {
  const char* name = std::getenv("MESHRT_GEMM");
  const std::string wanted = name ? name : "own";
  if (wanted == "openblas") return std::make_unique<const Blas>();
  if (wanted != "own")
    throw Failure(Cause::environment, "MESHRT_GEMM is `" + wanted + "`; it may be `own` or `openblas`");
  return nullptr;
}

const Blas* blas() {
  static const std::unique_ptr<const Blas> chosen = chosen_blas();
  return chosen.get();
}

template <class T>
using Kernel = void (*)(const Product<T>&);

template <class T>
Kernel<T> own_multiply() {
  return choose<Kernel<T>>(MESHRT_VARIANTS(multiply<T>));
}
template <class T>
Kernel<T> own_complete() {
  return choose<Kernel<T>>(MESHRT_VARIANTS(complete<T>));
}

}  // namespace

template <class T>
void multiply(const Product<T>& p) {
  const Timed timed(&StepProfile::products, [&] {
    return TraceLabel{"product " + std::to_string(p.rows) + " x " + std::to_string(p.inner) + " x " +
                      std::to_string(p.cols)};
  });
  if (const Blas* library = blas(); library && p.rows && p.cols && p.inner && library->multiply(p)) {
    static const Kernel<T> complete = own_complete<T>();
    return complete(p);
  }
  static const Kernel<T> multiply = own_multiply<T>();
  multiply(p);
}

template <class T>
void multiply_batch(const Product<T>& product, std::span<const Batch> loops) {
  if (loops.empty()) return multiply(product);
  const Batch& loop = loops.front();
  Product<T> p = product;
  for (int64_t i = 0; i < loop.count; ++i) {
    multiply_batch(p, loops.subspan(1));
    p.a += loop.a_stride;
    p.b += loop.b_stride;
    p.c += loop.c_stride;
    if (p.finish.bias) p.finish.bias += loop.bias_stride;
    if (p.finish.slope) p.finish.slope += loop.c_stride;
    if (p.finish.times) p.finish.times += loop.c_stride;
    if (p.finish.plus) p.finish.plus += loop.c_stride;
    if (p.column_sum) p.column_sum += loop.sum_stride;
  }
}

template void multiply(const Product<float>&);
template void multiply(const Product<double>&);
template void multiply_batch(const Product<float>&, std::span<const Batch>);
template void multiply_batch(const Product<double>&, std::span<const Batch>);

std::string multiply_name() {
  if (const Blas* library = blas()) return "openblas " + library->core();
  return std::string("own ") + choose<const char*>("portable", "avx2", "avx512");
}

}  // namespace meshrt
