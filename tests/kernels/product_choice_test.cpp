// Which implementation runs a product, and that each gives the same but for rounding. Run with MESHRT_GEMM=own,
// openblas, onednn and a table, and at other levels of MESHRT_ISA_LEVEL.
#include "kernels/product_choice.h"

#include <gtest/gtest.h>

#include <array>
#include <climits>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/blas.h"
#include "kernels/onednn.h"
#include "kernels/product_table.h"
#include "meshrt/failure.h"
#include "refused_onednn.h"

namespace meshrt {
namespace {

constexpr ProductClass all_classes[] = {ProductClass::with_epilogue, ProductClass::thin, ProductClass::small,
                                        ProductClass::matrix};

template <class T>
Product<T> plain(int64_t rows, int64_t cols, int64_t inner) {
  Product<T> p;
  p.rows = rows, p.cols = cols, p.inner = inner;
  p.a_row = inner, p.b_row = cols, p.c_row = cols;
  return p;
}

TEST(ProductChoice, WithoutVectorInstructionsItIsOpenBlas) {
  for (const ProductClass shape : all_classes) {
    EXPECT_EQ(fastest<float>(InstructionSet::portable, shape), Implementation::openblas);
    EXPECT_EQ(fastest<double>(InstructionSet::portable, shape), Implementation::openblas);
  }
}

TEST(ProductChoice, ProductsWithAFinishAreOursWhereThereAreVectors) {
  for (const InstructionSet level : {InstructionSet::neon, InstructionSet::avx2, InstructionSet::avx512})
    EXPECT_EQ(fastest<float>(level, ProductClass::with_epilogue), Implementation::own);
}

TEST(ProductChoice, ClassesGoByExtentsAndFinish) {
  EXPECT_EQ(class_of(plain<float>(1, 4096, 4096)), ProductClass::thin);
  EXPECT_EQ(class_of(plain<float>(4096, 7, 4096)), ProductClass::thin);
  EXPECT_EQ(class_of(plain<float>(128, 128, 128)), ProductClass::small);
  EXPECT_EQ(class_of(plain<float>(512, 1152, 384)), ProductClass::matrix);
  EXPECT_EQ(class_of(plain<float>(int64_t{1} << 31, int64_t{1} << 31, 8)), ProductClass::matrix);
  Product<double> p = plain<double>(512, 1152, 384);
  const double bias = 0;
  p.epilogue.bias = &bias;
  EXPECT_EQ(class_of(p), ProductClass::with_epilogue);
  p = plain<double>(512, 1152, 384);
  p.epilogue.activation = Activation::relu;
  EXPECT_EQ(class_of(p), ProductClass::with_epilogue);
}

TEST(ProductChoice, LeavesExtentsThatBlasCannotCountToUs) {
  const Blas library;
  // Nothing is read: the extents alone say no.
  EXPECT_FALSE(library.multiply(plain<float>(int64_t{INT_MAX} + 1, 1, 1)));
  EXPECT_FALSE(library.multiply(plain<float>(1, int64_t{INT_MAX} + 1, 1)));
  EXPECT_FALSE(library.multiply(plain<double>(1, 1, int64_t{INT_MAX} + 1)));
  Product<float> p = plain<float>(1, 1, 1);
  p.c_row = int64_t{INT_MAX} + 1;
  EXPECT_FALSE(library.multiply(p));
}

/// What multiply() gives, whichever implementation it takes, beside a sum in long double.
template <class T>
void expect_product(int64_t rows, int64_t cols, int64_t inner, bool accumulate, bool with_bias) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  const auto numbers = [&](int64_t count) {
    std::vector<T> result(static_cast<size_t>(count));
    for (T& x : result) x = static_cast<T>(unit(random));
    return result;
  };
  const std::vector<T> a = numbers(rows * inner), b = numbers(inner * cols), bias = numbers(cols);
  std::vector<T> c = numbers(rows * cols);
  const std::vector<T> before = c;
  Product<T> p = plain<T>(rows, cols, inner);
  p.a = a.data(), p.b = b.data(), p.c = c.data(), p.accumulate = accumulate;
  if (with_bias) p.epilogue.bias = bias.data();
  multiply(p);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      long double sum = accumulate ? before[i * cols + j] : 0;
      for (int64_t k = 0; k < inner; ++k) sum += static_cast<long double>(a[i * inner + k]) * b[k * cols + j];
      if (with_bias) sum += bias[j];
      const double most = 2 * std::numeric_limits<T>::epsilon() * static_cast<double>(inner + 2);
      ASSERT_NEAR(static_cast<double>(c[i * cols + j]), static_cast<double>(sum), most) << i << " " << j;
    }
}

TEST(ProductChoice, EveryChoiceGivesTheProduct) {
  for (const auto& [rows, cols, inner] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {1, 300, 40}, {300, 1, 40}, {33, 65, 17}, {128, 96, 200}, {256, 256, 70}})
    for (const bool accumulate : {false, true})
      for (const bool with_bias : {false, true}) {
        expect_product<float>(rows, cols, inner, accumulate, with_bias);
        expect_product<double>(rows, cols, inner, accumulate, with_bias);
      }
}

TEST(ProductChoice, LargeOnesOfBf16MayBeOneDnns) {
  EXPECT_EQ(class_of(512, 1536, 384), ProductClass::matrix);
  EXPECT_EQ(class_of(7, 4096, 4096), ProductClass::thin);
  EXPECT_EQ(class_of(128, 128, 128), ProductClass::small);
}

TEST(ProductChoice, IsToldAsItIs) {
  const auto wanted = wanted_implementation();
  const std::string name = multiply_name();
  if (const auto& given = given_product_table()) {
    EXPECT_EQ(name.substr(0, 4), "own ");
    EXPECT_EQ(name.find(" and openblas ") != std::string::npos, given->has(Implementation::openblas));
    EXPECT_TRUE(name.ends_with(", by table " + given->hash)) << name;
    return;
  }
  if (wanted == Implementation::own) EXPECT_EQ(name.substr(0, 4), "own ");
  else if (wanted == Implementation::openblas || instruction_set() == InstructionSet::portable)
    EXPECT_EQ(name.substr(0, 9), "openblas ");
  else EXPECT_EQ(name.substr(0, 7), std::string("own ") + (instruction_set() == InstructionSet::neon ? "neo" : "avx"));
  if (is_refused_bf16([] { multiply_name({true, false}); })) return;
  EXPECT_EQ(multiply_warning(), "");  // OpenBLAS is there
  const bool has_pairs = instruction_set() >= InstructionSet::avx512_bf16;
  const std::string bf16 = has_pairs ? ", bf16 by vdpbf16ps" : ", bf16 widened";
  std::string library;
  if (wanted == Implementation::onednn) library = ", products of bf16 " + onednn().name;
  else if (!wanted && processor_has_amx() && onednn().has_amx) library = ", matrices of bf16 " + onednn().name;
  EXPECT_EQ(multiply_name({true, false}), name + bf16 + library);
  EXPECT_EQ(multiply_name({false, true}), name + ", f16 widened");
  EXPECT_EQ(multiply_name({true, true}), name + bf16 + ", f16 widened" + library);
}

}  // namespace
}  // namespace meshrt
