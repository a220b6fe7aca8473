#include "codegen/commands/measure/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "codegen/graph/graph.h"
#include "codegen/graph/map_function.h"
#include "codegen/layout/cost.h"
#include "meshrt/attention.h"
#include "meshrt/collectives.h"
#include "meshrt/gemm.h"
#include "meshrt/random.h"

namespace mesh {
namespace {

using meshrt::Rank;

constexpr int64_t rows = 512, inner = 1536, cols = 384;  // of a product: those of a layer of a small Transformer
// Between two calls: products of some rows that take a millisecond together, again and again.
constexpr int64_t rows_between = 8, most_works = 48, least_works = 8;
constexpr double seconds_of_works = 48e-3;
// Of attention: a few sequences of a small Transformer.
constexpr int64_t sequences = 8, positions = 128, heads = 4, head = 32;
constexpr int64_t row = heads * head, values = sequences * positions * row;
constexpr int attended = 3;  // times, each with operands of its own
// Random numbers, and half as many as elements of functions: again and again, longer than a rank has a core that it
// shares.
constexpr int64_t drawn = rows * cols / 2;
constexpr int repeats = 8;
constexpr size_t elements = size_t{8} << 20;           // of each array that memory is read and written by
constexpr int64_t most_places = 8;                     // that a call takes its value from, one after the other
constexpr int64_t bytes_of_a_turn = int64_t{8} << 20;  // that calls of one size are repeated for

const meshrt::Group& group_over(Rank& rank, meshrt::Axis axis) { return rank.group(std::vector<meshrt::Axis>{axis}); }

/// a [rows, inner] b [inner, cols], with a or b as if it lay transposed.
template <class T, class In>
meshrt::Product<T, In> product_of(const In* a, const In* b, T* c, bool a_transposed, bool b_transposed) {
  meshrt::Product<T, In> product;
  product.rows = rows, product.cols = cols, product.inner = inner;
  product.a = a, product.a_row = a_transposed ? 1 : inner, product.a_col = a_transposed ? rows : 1;
  product.b = b, product.b_row = b_transposed ? 1 : cols, product.b_col = b_transposed ? inner : 1;
  product.c = c, product.c_row = cols;
  return product;
}

/// y = x / 2 + y. With the widest instructions that there are, as programs do it.
#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
void go_through(const float* x, float* y, size_t n) {
  using Lanes [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;
  for (size_t i = 0; i + 16 <= n; i += 16) {
    Lanes* const to = reinterpret_cast<Lanes*>(y + i);
    *to = 0.5F * *reinterpret_cast<const Lanes*>(x + i) + *to;
  }
}

}  // namespace

Bench::Bench(Rank& rank)
    : rank_(rank),
      all_(group_over(rank, {rank.ranks(), 1})),
      x_(elements, 0.5F),
      y_(elements, 0.25F),
      wide_x_(elements / 2, 0.5),
      wide_y_(elements / 2, 0.25),
      narrow_x_(elements, meshrt::Bfloat16(0.5F)) {}

double Bench::products_f32() { return three_products(x_.data(), y_.data()); }
double Bench::products_f64() { return three_products(wide_x_.data(), wide_y_.data()); }
double Bench::products_bf16() { return three_products(narrow_x_.data(), y_.data()); }

/// Each of operands of its own: those of a step's next product are not in the first caches either.
template <class T, class In>
double Bench::three_products(const In* x, T* y) {
  return slowest([&] {
    for (const int form : {0, 1, 2}) {
      const In *const a = x + form * (rows + cols) * inner, *const b = a + rows * inner;
      meshrt::multiply(product_of(a, b, y + form * rows * cols, form == 1, form == 2));
    }
  });
}

void Bench::work_between_calls(int64_t turn) {
  const float *const a = x_.data() + turn % 3 * (rows + cols) * inner, *const b = a + rows * inner;
  meshrt::Product<float> product = product_of(a, b, y_.data(), false, false);
  product.rows = rows_between;
  meshrt::multiply(product);
}

double Bench::flops() { return 3 * 2.0 * static_cast<double>(rows * inner * cols); }

template <class In>
double Bench::attention(const In* x) {
  meshrt::AttentionShape shape;
  shape.batch = sequences, shape.heads = shape.key_heads = heads, shape.queries = shape.keys = positions;
  shape.head = shape.value_head = head, shape.scale = 0.25, shape.least = 0;
  const meshrt::HeadStrides at{positions * row, row, head};
  return slowest([&] {
    for (int64_t i = 0; i < attended; ++i) {
      const In *const q = x + i * 4 * values, *const k = q + values, *const v = k + values, *const d_out = v + values;
      float *const out = y_.data() + i * 5 * values, *const d_q = out + values, *const log_sums = out + 4 * values;
      meshrt::attention(shape, meshrt::AttentionForward<float, In>{q, k, v, at, at, at, out, at, log_sums});
      meshrt::attention_backward(
          shape, meshrt::AttentionBackward<float, In>{q, k, v, at, at, at, out, at, log_sums, d_out, at, d_q,
                                                      d_q + values, d_q + 2 * values, at, at, at});
    }
  });
}
double Bench::attention_f32() { return attention(x_.data()); }
double Bench::attention_bf16() { return attention(narrow_x_.data()); }
/// Seven products each of queries with the keys before them.
double Bench::attention_flops() {
  return attended * 7.0 * static_cast<double>(sequences * heads * head * positions * (positions + 1));
}

double Bench::elementwise() {
  meshrt::Product<float> product;  // of one column and one row: all but nothing beside what follows it
  product.rows = rows, product.cols = cols, product.inner = 1;
  product.a = x_.data(), product.a_row = 1;
  product.b = x_.data() + rows, product.b_row = cols;
  float *const c = y_.data(), *const slopes = c + rows * cols;
  product.c = c, product.c_row = cols;
  product.epilogue.slope = slopes, product.epilogue.activation = meshrt::Activation::gelu;
  const meshrt::Part part{drawn, 0, drawn};
  return slowest([&] {
    for (int i = 0; i < repeats; ++i) {
      meshrt::multiply(product);
      meshrt::fill_uniform(c, std::span(&part, 1), meshrt::RandomKey(1, "bench"), 0, 1);
    }
  });
}
/// As the ops count them.
double Bench::elementwise_flops() {
  return repeats *
         ((info(MapFunction::gelu).flops + info(MapFunction::gelu_slope).flops) * static_cast<double>(rows * cols) +
          flops_of_uniform * static_cast<double>(drawn));
}

double Bench::memory(size_t index) {
  const size_t n = static_cast<size_t>(touched[index]) / (3 * sizeof(float)), turns = 4 * elements / n;
  const double all = slowest([&] {
    for (size_t turn = 0; turn < turns; ++turn) go_through(x_.data(), y_.data(), n);
  });
  return all / static_cast<double>(turns);
}

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
  const auto half = static_cast<int64_t>(arena / 2);
  for (const int64_t bytes : sizes) {
    all_reduces_.emplace_back(), sends_.emplace_back();
    for (int64_t place = 0; place < std::min(most_places, half / bytes); ++place) {
      std::byte *const own = from + place * bytes, *const others = to + place * bytes;
      all_reduces_.back().push_back(
          meshrt::plan_all_reduce(rank, group_, {}, own, bytes / 4, meshrt::Type::f32, meshrt::Reduce::sum));
      sends_.back().push_back(
          meshrt::plan_permute(rank, group_, {}, own, bytes / 4, next, others, bytes / 4, before, meshrt::Type::f32));
    }
  }
}

double CallBench::all_reduce_after(double work) {
  Places& plans = all_reduces_.front();
  const int64_t works = std::clamp(static_cast<int64_t>(seconds_of_works / work), least_works, most_works);
  int64_t products = 1;  // of a work
  const auto seconds = [&](bool meet) {
    return bench_.slowest([&] {
      for (int64_t turn = 0; turn < works; ++turn) {
        for (int64_t i = 0; i < products; ++i) bench_.work_between_calls(turn * products + i);
        if (meet) plans[static_cast<size_t>(turn) % plans.size()].run();
      }
    });
  };
  products = std::max<int64_t>(1, std::llround(work * static_cast<double>(works) / seconds(false)));
  const double apart = seconds(false);
  return (seconds(true) - apart) / static_cast<double>(works);
}

double CallBench::seconds(Places& plans, size_t index) {
  const int64_t repeats = std::clamp<int64_t>(bytes_of_a_turn / sizes[index], 1, 200);
  const double all = bench_.slowest([&] {
    for (int64_t i = 0; i < repeats; ++i) plans[static_cast<size_t>(i) % plans.size()].run();
  });
  return all / static_cast<double>(repeats);
}

}  // namespace mesh
