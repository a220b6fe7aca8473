#include "blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "instruction_set.h"
#include "meshrt/failure.h"
#include "system/dynamic_library.h"

namespace meshrt {
namespace {

// The numbers of the CBLAS interface.
constexpr int row_major = 101, as_it_is = 111, transposed = 112;

// How BLAS calls a matrix with these strides: its transposition and distance between rows (or columns). A distance of 0
// means that BLAS cannot.
struct Operand {
  int transpose, distance;
};
Operand operand(int64_t row, int64_t col, int64_t rows, int64_t cols) {
  if (std::max({row, col, rows, cols}) > INT_MAX) return {as_it_is, 0};
  if (col == 1 && row >= cols) return {as_it_is, static_cast<int>(row)};
  if (row == 1 && col >= rows) return {transposed, static_cast<int>(col)};
  return {as_it_is, 0};
}

// On a processor that it does not know OpenBLAS falls back to kernels from 2004: say what this one is like. Those for
// Haswell are the faster ones on AMD's, with AVX-512 too. Null: what it finds.
const char* core_type() {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512 && __builtin_cpu_is("intel")) return "SkylakeX";
  if (instruction_set() >= InstructionSet::avx2) return "Haswell";
#endif
  return nullptr;
}

}  // namespace

Blas::Blas() {
  if (const char* core = core_type()) setenv("OPENBLAS_CORETYPE", core, 0);
  setenv("OPENBLAS_NUM_THREADS", "1", 0);  // it would start its threads as it is opened
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Failure(Cause::environment, std::string("OpenBLAS cannot be opened: ") + dlerror());
  find_function(library, "OpenBLAS", "cblas_sgemm", single_);
  find_function(library, "OpenBLAS", "cblas_dgemm", double_);
  void (*set_threads)(int) = nullptr;
  find_function(library, "OpenBLAS", "openblas_set_num_threads", set_threads);
  set_threads(1);
  char* (*core_name)() = nullptr;
  find_function(library, "OpenBLAS", "openblas_get_corename", core_name);
  core_ = core_name();
}

template <class T>
bool Blas::multiply_by(Gemm<T> gemm, const Product<T>& p) {
  const Operand a = operand(p.a_row, p.a_col, p.rows, p.inner), b = operand(p.b_row, p.b_col, p.inner, p.cols);
  if (!a.distance || !b.distance || p.c_row < p.cols || p.c_row > INT_MAX) return false;
  gemm(row_major, a.transpose, b.transpose, static_cast<int>(p.rows), static_cast<int>(p.cols),
       static_cast<int>(p.inner), T(1), p.a, a.distance, p.b, b.distance, T(p.accumulate ? 1 : 0), p.c,
       static_cast<int>(p.c_row));
  return true;
}

bool Blas::multiply(const Product<float>& p) const { return multiply_by(single_, p); }
bool Blas::multiply(const Product<double>& p) const { return multiply_by(double_, p); }

}  // namespace meshrt
