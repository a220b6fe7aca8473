#include "codegen/commands/measure/bench.h"

#include <algorithm>
#include <chrono>

#include "codegen/graph/map_function.h"
#include "codegen/graph/op.h"
#include "meshrt/attention.h"
#include "meshrt/collectives.h"
#include "meshrt/gemm.h"
#include "meshrt/random.h"

namespace mesh {
namespace {

using meshrt::Rank;

constexpr int64_t rows = 512, inner = 1536, cols = 384;  // of a product: those of a layer of a small Transformer
// Of attention: a few sequences of a small Transformer.
constexpr int64_t sequences = 4, positions = 256, heads = 4, head = 32;
constexpr int64_t row = heads * head, values = sequences * positions * row;
constexpr int64_t drawn = rows * cols / 2;             // random numbers, and functions of
constexpr int repeats = 8;                             // of both: longer than a rank has a core that it shares
constexpr size_t elements = size_t{4} << 20;           // of each array that memory is read and written by, f64
constexpr int64_t bytes_of_a_turn = int64_t{8} << 20;  // that calls of one size are repeated for

const meshrt::Group& group_over(Rank& rank, meshrt::Axis axis) { return rank.group(std::vector<meshrt::Axis>{axis}); }

/// a [rows, inner] b [inner, cols], then with a and then with b as if it lay transposed.
template <class T>
void three_products(const T* a, const T* b, T* c) {
  for (const int form : {0, 1, 2}) {
    meshrt::Product<T> product;
    product.rows = rows, product.cols = cols, product.inner = inner;
    product.a = a, product.a_row = form == 1 ? 1 : inner, product.a_col = form == 1 ? rows : 1;
    product.b = b, product.b_row = form == 2 ? 1 : cols, product.b_col = form == 2 ? inner : 1;
    product.c = c, product.c_row = cols;
    meshrt::multiply(product);
  }
}

}  // namespace

Bench::Bench(Rank& rank)
    : rank_(rank),
      all_(group_over(rank, {rank.ranks(), 1})),
      a_(static_cast<size_t>(rows * inner), 0.5F),
      b_(static_cast<size_t>(inner * cols), 0.25F),
      c_(static_cast<size_t>(rows * cols)),
      slopes_(c_.size()),
      wide_a_(a_.begin(), a_.end()),
      wide_b_(b_.begin(), b_.end()),
      wide_c_(c_.size()),
      x_(elements, 1),
      y_(elements, 1) {}

double Bench::products_f32() {
  return slowest([&] { three_products(a_.data(), b_.data(), c_.data()); });
}
double Bench::products_f64() {
  return slowest([&] { three_products(wide_a_.data(), wide_b_.data(), wide_c_.data()); });
}
double Bench::flops() { return 3 * 2.0 * static_cast<double>(rows * inner * cols); }

double Bench::attention() {
  meshrt::AttentionShape shape;
  shape.batch = sequences, shape.heads = shape.key_heads = heads, shape.queries = shape.keys = positions;
  shape.head = shape.value_head = head, shape.scale = 0.25, shape.least = 0;
  const meshrt::HeadStrides at{positions * row, row, head};
  const float *q = a_.data(), *k = b_.data(), *v = q + values, *d_out = k + values;
  std::vector<float> log_sums(static_cast<size_t>(sequences * heads * positions));
  std::vector<float> results(static_cast<size_t>(4 * values));
  float* const out = results.data();
  return slowest([&] {
    meshrt::attention(shape, meshrt::AttentionForward<float>{q, k, v, at, at, at, out, at, log_sums.data()});
    meshrt::attention_backward(
        shape, meshrt::AttentionBackward<float>{q, k, v, at, at, at, out, at, log_sums.data(), d_out, at, out + values,
                                                out + 2 * values, out + 3 * values, at, at, at});
  });
}
/// Seven products of queries with the keys before them.
double Bench::attention_flops() {
  return 7 * 2.0 * static_cast<double>(sequences * heads * head * positions * (positions + 1) / 2);
}

double Bench::elementwise() {
  meshrt::Product<float> product;  // of one column and one row: all but nothing beside what follows it
  product.rows = rows, product.cols = cols, product.inner = 1;
  product.a = a_.data(), product.a_row = inner;
  product.b = b_.data(), product.b_row = cols;
  product.c = c_.data(), product.c_row = cols;
  product.epilogue.slope = slopes_.data(), product.epilogue.activation = meshrt::Activation::gelu;
  const meshrt::Part part{drawn, 0, drawn};
  return slowest([&] {
    for (int i = 0; i < repeats; ++i) {
      meshrt::multiply(product);
      meshrt::fill_uniform(c_.data(), std::span(&part, 1), meshrt::RandomKey(1, "bench"), 0, 1);
    }
  });
}
/// As the ops count them.
double Bench::elementwise_flops() {
  return repeats *
         ((info(MapFunction::gelu).flops + info(MapFunction::gelu_slope).flops) * static_cast<double>(rows * cols) +
          flops_of_uniform * static_cast<double>(drawn));
}

double Bench::memory() {
  return slowest([&] {
    for (size_t i = 0; i < elements; ++i) y_[i] = 0.5 * x_[i] + y_[i];
  });
}
double Bench::bytes() { return 3.0 * sizeof(double) * static_cast<double>(elements); }

double Bench::slowest(const std::function<void()>& work) {
  meshrt::barrier(rank_, all_, {});
  const auto begin = std::chrono::steady_clock::now();
  work();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  meshrt::all_reduce(rank_, all_, {}, &seconds, 1, meshrt::Type::f64, meshrt::Reduce::max);
  return seconds;
}

CallBench::CallBench(Rank& rank, Bench& bench, meshrt::Axis axis) : bench_(bench), group_(group_over(rank, axis)) {
  std::byte *const from = rank.arena(), *const to = from + arena / 2;
  const int k = group_.size(), next = (group_.index + 1) % k, before = (group_.index + k - 1) % k;
  for (const int64_t bytes : sizes) {
    all_reduces_.push_back(
        meshrt::plan_all_reduce(rank, group_, {}, from, bytes / 4, meshrt::Type::f32, meshrt::Reduce::sum));
    sends_.push_back(
        meshrt::plan_permute(rank, group_, {}, from, bytes / 4, next, to, bytes / 4, before, meshrt::Type::f32));
  }
}

double CallBench::seconds(meshrt::Plan& plan, size_t index) {
  const int64_t repeats = std::clamp<int64_t>(bytes_of_a_turn / sizes[index], 1, 200);
  const double all = bench_.slowest([&] {
    for (int64_t i = 0; i < repeats; ++i) plan.run();
  });
  return all / static_cast<double>(repeats);
}

}  // namespace mesh
