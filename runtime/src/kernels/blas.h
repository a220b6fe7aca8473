// blas.h: products by OpenBLAS, opened at run time: the other implementation behind gemm.h (product_choice.h chooses).
#pragma once
#include <string>

#include "meshrt/gemm.h"

namespace meshrt {

class Blas {
 public:
  /// Opens libopenblas.so.0 with one thread and the kernels for this processor. Throws Failure when it is not there.
  Blas();

  /// c = a · b, plus c where the product accumulates; nothing of `epilogue`. False where the strides are none that BLAS
  /// takes, or an extent is longer than its int.
  bool multiply(const Product<float>& product) const;
  bool multiply(const Product<double>& product) const;

  /// The kernels that OpenBLAS chose: "SkylakeX".
  const std::string& core() const { return core_; }

 private:
  template <class T>
  using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T* a, int lda,
                        const T* b, int ldb, T beta, T* c, int ldc);
  template <class T>
  static bool multiply_by(Gemm<T> gemm, const Product<T>& product);

  Gemm<float> single_;
  Gemm<double> double_;
  std::string core_;
};

}  // namespace meshrt
