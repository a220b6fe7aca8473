// gemm.cpp: our products against OpenBLAS, both on one thread, taken in turns in one run: gigaflops a second and their
// ratio, medians over the turns. Shapes are those of one step of a 384-wide transformer at 512 tokens a rank. Then what
// follows a product, by our own kernels: how much longer it takes with bias, activation and the activation's slope.
//   tests/bench/gemm [turns]
#include "meshrt/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "timing.h"

extern "C" {
void openblas_set_num_threads(int threads);
char* openblas_get_corename();
}

namespace {

struct Shape {
  const char* form;  // NN: a [rows, inner], b [inner, cols]; NT: b lies transposed; TN: a lies transposed
  int64_t rows, cols, inner;
};

void blas(const Shape& s, const float* a, const float* b, float* c, bool a_turned, bool b_turned) {
  cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans, b_turned ? CblasTrans : CblasNoTrans, int(s.rows),
              int(s.cols), int(s.inner), 1, a, int(a_turned ? s.rows : s.inner), b, int(b_turned ? s.inner : s.cols), 0,
              c, int(s.cols));
}
void blas(const Shape& s, const double* a, const double* b, double* c, bool a_turned, bool b_turned) {
  cblas_dgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans, b_turned ? CblasTrans : CblasNoTrans, int(s.rows),
              int(s.cols), int(s.inner), 1, a, int(a_turned ? s.rows : s.inner), b, int(b_turned ? s.inner : s.cols), 0,
              c, int(s.cols));
}

template <class T>
void measure(const Shape& s, int turns) {
  const bool a_turned = s.form[0] == 'T', b_turned = s.form[1] == 'T';
  std::mt19937 random(1);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<T> a(static_cast<size_t>(s.rows * s.inner)), b(static_cast<size_t>(s.inner * s.cols)),
      c(static_cast<size_t>(s.rows * s.cols)), d(c);
  for (T& x : a) x = T(unit(random));
  for (T& x : b) x = T(unit(random));
  meshrt::Product<T> p;
  p.rows = s.rows, p.cols = s.cols, p.inner = s.inner;
  p.a = a.data(), p.a_row = a_turned ? 1 : s.inner, p.a_col = a_turned ? s.rows : 1;
  p.b = b.data(), p.b_row = b_turned ? 1 : s.cols, p.b_col = b_turned ? s.inner : 1;
  p.c = c.data(), p.c_row = s.cols;
  const double flops = 2.0 * double(s.rows) * double(s.cols) * double(s.inner);
  const int repeats = std::max(1, static_cast<int>(5e8 / flops));  // some 4 ms a turn at full speed
  std::vector<double> ours, theirs, ratios;
  for (int turn = 0; turn < turns; ++turn) {
    const double own = seconds([&] {
                         for (int i = 0; i < repeats; ++i) meshrt::multiply(p);
                       }) /
                       repeats;
    const double other = seconds([&] {
                           for (int i = 0; i < repeats; ++i) blas(s, a.data(), b.data(), d.data(), a_turned, b_turned);
                         }) /
                         repeats;
    ours.push_back(flops / own * 1e-9), theirs.push_back(flops / other * 1e-9), ratios.push_back(other / own);
  }
  std::printf("%s %s %5ld x %5ld x %5ld   ours %7.1f   OpenBLAS %7.1f   ratio %.3f\n", sizeof(T) == 4 ? "f32" : "f64",
              s.form, long(s.rows), long(s.cols), long(s.inner), median(ours), median(theirs), median(ratios));
}

void measure_epilogue(const char* name, meshrt::Activation activation, int turns) {
  const int64_t rows = 512, inner = 384, cols = 1536;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> unit(-1, 1);
  std::vector<float> a(rows * inner), b(inner * cols), bias(cols), c(rows * cols), slope(c);
  for (std::vector<float>* values : {&a, &b, &bias})
    for (float& x : *values) x = unit(random);
  meshrt::Product<float> plain;
  plain.rows = rows, plain.cols = cols, plain.inner = inner;
  plain.a = a.data(), plain.a_row = inner, plain.b = b.data(), plain.b_row = cols;
  plain.c = c.data(), plain.c_row = cols;
  meshrt::Product<float> whole = plain;
  whole.epilogue.bias = bias.data(), whole.epilogue.slope = slope.data(), whole.epilogue.activation = activation;
  std::vector<double> ratios;
  for (int turn = 0; turn < turns; ++turn) {
    const double without = seconds([&] { meshrt::multiply(plain); });
    ratios.push_back(seconds([&] { meshrt::multiply(whole); }) / without);
  }
  std::printf("f32 NN %5ld x %5ld x %5ld   with bias, %s and its slope %.3f of it alone\n", long(rows), long(cols),
              long(inner), name, median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 25;
  openblas_set_num_threads(1);
  std::printf("gigaflops a second, one thread: %s against OpenBLAS %s (ratio above 1: ours is faster)\n",
              meshrt::multiply_name().c_str(), openblas_get_corename());
  const Shape shapes[] = {{"NN", 512, 1152, 384}, {"NN", 512, 1536, 384}, {"NN", 512, 384, 1536},
                          {"TN", 384, 1536, 512}, {"NN", 512, 384, 4096}, {"NT", 512, 4096, 384},
                          {"NT", 512, 384, 1152}, {"TN", 4096, 384, 512}, {"NN", 1024, 1024, 1024},
                          {"NN", 64, 64, 16},     {"NT", 100, 70, 50},    {"NN", 1, 1536, 384},
                          {"NT", 1, 4096, 384},   {"NN", 512, 1, 384},    {"NN", 30, 4, 1000}};
  for (const Shape& shape : shapes) measure<float>(shape, turns);
  for (const Shape& shape : shapes) measure<double>(shape, turns);
  measure_epilogue("relu", meshrt::Activation::relu, turns);
  measure_epilogue("gelu", meshrt::Activation::gelu, turns);
  measure_epilogue("gelu_tanh", meshrt::Activation::gelu_tanh, turns);
  measure_epilogue("silu", meshrt::Activation::silu, turns);
}
