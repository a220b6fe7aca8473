// narrow_products.h: products of numbers of 16 bits, and the same of f32, of all forms.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "meshrt/gemm.h"

namespace meshrt {

/// A product of numbers of type In and the same of f32, of which the other operand may be any f32.
template <class In>
class BothProducts {
 public:
  using OfNarrow = Product<float, In>;
  using NarrowLeft = Product<float, In, float>;
  using NarrowRight = Product<float, float, In>;

  explicit BothProducts(uint64_t seed) : random_(seed) {}

  void make(int64_t rows, int64_t cols, int64_t inner) {
    narrow = {};
    narrow.rows = rows, narrow.cols = cols, narrow.inner = inner;
    strides(rows, inner, narrow.a_row, narrow.a_col);
    strides(inner, cols, narrow.b_row, narrow.b_col);
    narrow.c_row = cols;
    fill(a_, wide_a_, any_a_, rows * narrow.a_row + inner * narrow.a_col + 1);
    fill(b_, wide_b_, any_b_, inner * narrow.b_row + cols * narrow.b_col + 1);
    rounding_b_.clear();
    for (const float x : any_b_) rounding_b_.push_back({x});
    const auto n = static_cast<size_t>(rows * cols);
    c_.resize(n), plus_.resize(n), bias_.resize(static_cast<size_t>(cols));
    for (std::vector<float>* numbers : {&c_, &plus_, &bias_})
      for (float& x : *numbers) x = normal_(random_);
    narrow.a = a_.data(), narrow.b = b_.data();
    narrow.accumulate = below(2);
    if (below(2)) narrow.epilogue = {.bias = bias_.data(), .activation = Activation::gelu, .plus = plus_.data()};
    wants_sum = below(3) == 0, wants_rounded = below(3) == 0;
    rounded_alone_ = wants_rounded && below(2);
  }

  template <class A, class B>
  Product<float, A, B> with(const std::vector<A>& a, const std::vector<B>& b) const {
    Product<float, A, B> p;
    p.rows = narrow.rows, p.cols = narrow.cols, p.inner = narrow.inner;
    p.a = a.data(), p.a_row = narrow.a_row, p.a_col = narrow.a_col;
    p.b = b.data(), p.b_row = narrow.b_row, p.b_col = narrow.b_col;
    p.c_row = narrow.c_row, p.accumulate = narrow.accumulate, p.epilogue = narrow.epilogue;
    return p;
  }
  Product<float> wide() const { return with(wide_a_, wide_b_); }
  NarrowLeft narrow_left() const { return with(a_, any_b_); }
  Product<float> wide_left() const { return with(wide_a_, any_b_); }
  // b in f32, of which a product takes what it rounds to.
  Product<float, In, AsBfloat16> rounded_right() const { return with(a_, rounding_b_); }
  NarrowRight narrow_right() const { return with(any_a_, b_); }
  Product<float> wide_right() const { return with(any_a_, wide_b_); }

  // The result, unless it may hold anything, the sums of columns, and the result rounded to bf16.
  template <class P, class Multiply>
  std::vector<float> run(P p, Multiply multiply) const {
    std::vector<float> c = c_, sum(bias_);
    std::vector<Bfloat16> rounded(c.size(), Bfloat16(0));
    p.c = c.data();
    p.epilogue.rounded = wants_rounded ? rounded.data() : nullptr;
    p.epilogue.rounded_alone = rounded_alone_ && wants_rounded;
    p.column_sum = wants_sum ? sum.data() : nullptr;
    multiply(p);
    if (p.epilogue.rounded_alone) c.clear();
    c.insert(c.end(), sum.begin(), sum.end());
    for (const Bfloat16 x : rounded) c.push_back(static_cast<float>(x));
    return c;
  }

  // What an element of one of these without an epilogue is, and the sum of the absolute products that it adds up.
  struct Sum {
    double value, magnitude;
  };
  // Of a row.
  std::vector<Sum> exact(const Product<float>& p, int64_t i) const {
    std::vector<Sum> sums(static_cast<size_t>(p.cols));
    for (int64_t j = 0; p.accumulate && j < p.cols; ++j) {
      const double begin = c_[static_cast<size_t>(i * p.c_row + j)];
      sums[static_cast<size_t>(j)] = {begin, std::abs(begin)};
    }
    for (int64_t k = 0; k < p.inner; ++k) {
      const double left = p.a[i * p.a_row + k * p.a_col];
      const float* right = p.b + k * p.b_row;
      for (Sum& sum : sums) {
        const double product = left * *right;
        sum.value += product, sum.magnitude += std::abs(product), right += p.b_col;
      }
    }
    return sums;
  }

  // That `got` is the sum of exactly these, but for how f32 rounds a sum of so many.
  void expect_sums(const Product<float>& p, const std::vector<float>& got) const {
    const double last_places = 0x1p-23 * std::sqrt(static_cast<double>(p.inner + 4));
    for (int64_t i = 0; i < p.rows; ++i) {
      const std::vector<Sum> sums = exact(p, i);
      for (int64_t j = 0; j < p.cols; ++j) {
        const auto [value, magnitude] = sums[static_cast<size_t>(j)];
        ASSERT_NEAR(got[static_cast<size_t>(i * p.c_row + j)], value, last_places * magnitude)
            << p.rows << " x " << p.inner << " x " << p.cols;
      }
    }
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  OfNarrow narrow;
  bool wants_sum = false, wants_rounded = false;

 private:
  bool rounded_alone_ = false;  // where it is wanted: nobody reads the result but so

  void strides(int64_t n, int64_t m, int64_t& row, int64_t& col) {
    switch (below(3)) {
      case 0: col = 1, row = m + below(3); break;
      case 1: row = 1, col = n + below(3); break;
      default: col = 1 + below(3), row = col * m + below(3); break;
    }
  }
  void fill(std::vector<In>& narrow, std::vector<float>& wide, std::vector<float>& any, int64_t n) {
    narrow.clear(), wide.clear(), any.clear();
    for (int64_t i = 0; i < n; ++i) {
      any.push_back(normal_(random_));
      narrow.emplace_back(any.back());
      wide.push_back(static_cast<float>(narrow.back()));
    }
  }

  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  std::vector<In> a_, b_;
  std::vector<AsBfloat16> rounding_b_;
  std::vector<float> wide_a_, wide_b_, any_a_, any_b_, c_, plus_, bias_;
};

template <class In, class Check>
void for_shapes(BothProducts<In>& both, Check check) {
  for (int64_t n = 0; n <= 40; n += 1 + both.below(3))
    for (int64_t other = 0; other <= 40; other += 1 + both.below(4)) {
      both.make(n, other, both.below(41));
      check();
      both.make(other, both.below(41), n);
      check();
      if (testing::Test::HasFatalFailure()) return;
    }
  // The later ones of few rows, of which b is read where it lies, in pieces of several rows and columns.
  const int64_t extents[][3] = {{17, 300, 1100}, {130, 37, 1030}, {9, 129, 2001}, {1, 700, 513},  {600, 3, 515},
                                {1, 5003, 36},   {1, 333, 2048},  {2, 2500, 70},  {7, 1153, 300}, {8, 40, 601},
                                {16, 1153, 302}, {40, 2500, 70},  {24, 97, 64}};
  for (const auto& [rows, cols, inner] : extents)
    for (int repeat = 0; repeat < 6; ++repeat) {
      both.make(rows, cols, inner);
      check();
      if (testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace meshrt
