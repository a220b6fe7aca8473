#include "codegen/commands/measure/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "meshrt/gemm.h"
#include "meshrt/log.h"
#include "meshrt/plan.h"

namespace mesh {
namespace {

using meshrt::Rank;
using Tell = std::function<void(const std::string&)>;

// What is measured is so in turns, one thing after the other, so that other load on the host meets all alike.
constexpr int turns = 9;
constexpr int64_t rows = 512, inner = 1536, cols = 384;        // of a product: those of a layer of a small Transformer
constexpr size_t elements = size_t{4} << 20;                   // of each array that memory is read and written by, f64
constexpr int64_t smallest = 64, largest = int64_t{16} << 20;  // bytes of an all-reduce
constexpr int64_t sizes[] = {smallest, 65536, 262144, int64_t{1} << 20, int64_t{4} << 20, largest};
constexpr int64_t first_rate = 262144;  // below it latency has too large a part

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

/// Of what lies between the quarters, by the median.
double spread_of(std::vector<double> of) {
  std::ranges::sort(of);
  return (of[3 * of.size() / 4] - of[of.size() / 4]) / of[of.size() / 2];
}

class Bench {
 public:
  explicit Bench(Rank& rank)
      : rank_(rank), all_(rank.group(std::vector<meshrt::Axis>{{rank.ranks(), 1}})), x_(elements, 1), y_(elements, 1) {
    rank.allocate(static_cast<size_t>(largest), 64);
    a_.assign(static_cast<size_t>(rows * inner), 0.5F);
    b_.assign(static_cast<size_t>(inner * cols), 0.25F);
    c_.assign(static_cast<size_t>(rows * cols), 0);
    wide_a_.assign(a_.begin(), a_.end());
    wide_b_.assign(b_.begin(), b_.end());
    wide_c_.assign(c_.begin(), c_.end());
    if (rank.ranks() > 1)
      for (const int64_t bytes : sizes)
        plans_.push_back(
            meshrt::plan_all_reduce(rank, all_, {}, rank.arena(), bytes / 4, meshrt::Type::f32, meshrt::Reduce::sum));
  }

  /// Seconds of a product forward, and of those of its two gradients.
  double products_f32() {
    return slowest([&] { three_products(a_.data(), b_.data(), c_.data()); });
  }
  double products_f64() {
    return slowest([&] { three_products(wide_a_.data(), wide_b_.data(), wide_c_.data()); });
  }
  static double flops() { return 3 * 2.0 * static_cast<double>(rows * inner * cols); }

  double memory() {
    return slowest([&] {
      for (size_t i = 0; i < elements; ++i) y_[i] = 0.5 * x_[i] + y_[i];
    });
  }
  static double bytes() { return 3.0 * sizeof(double) * static_cast<double>(elements); }

  /// Seconds of one all-reduce of the size with this index.
  double all_reduce(size_t index) {
    const int64_t repeats = std::clamp<int64_t>((int64_t{8} << 20) / sizes[index], 1, 300);
    return slowest([&] {
             for (int64_t i = 0; i < repeats; ++i) plans_[index].run();
           }) /
           static_cast<double>(repeats);
  }

  /// Whether ranks have different host names.
  bool on_several_hosts() {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    double code = static_cast<double>(std::hash<std::string>{}(name) >> 12), least = -code;
    meshrt::all_reduce(rank_, all_, {}, &code, 1, meshrt::Type::f64, meshrt::Reduce::max);
    meshrt::all_reduce(rank_, all_, {}, &least, 1, meshrt::Type::f64, meshrt::Reduce::max);
    return code != -least;
  }

 private:
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

  /// Seconds that the slowest rank takes when all begin together.
  double slowest(const std::function<void()>& work) {
    meshrt::barrier(rank_, all_, {});
    const auto begin = std::chrono::steady_clock::now();
    work();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    meshrt::all_reduce(rank_, all_, {}, &seconds, 1, meshrt::Type::f64, meshrt::Reduce::max);
    return seconds;
  }

  Rank& rank_;
  const meshrt::Group& all_;
  std::vector<float> a_, b_, c_;
  std::vector<double> wide_a_, wide_b_, wide_c_, x_, y_;
  std::vector<meshrt::Plan> plans_;
};

/// Of one rate for all sizes, beside the latency: between those of the sizes from `first_rate` on.
void fit(Measured& found) {
  const double k = found.ranks, rounds = 2 * std::ceil(std::log2(k)), short_call = found.all_reduces.front().seconds;
  found.latency_us = 1e6 * short_call / rounds;
  double sum = 0;
  int count = 0;
  for (Measured::AllReduce& one : found.all_reduces) {
    if (one.bytes == smallest) continue;
    const double sent = 2 * (k - 1) / k * static_cast<double>(one.bytes);
    one.gbs = 1e-9 * sent / std::max(one.seconds - short_call, 1e-9);
    if (one.bytes >= first_rate) sum += std::log(one.gbs), ++count;
  }
  found.gbs = std::exp(sum / count);
}

}  // namespace

Measured measure_host(Rank& rank, const Tell& tell) {
  Bench bench(rank);
  if (bench.on_several_hosts())
    throw meshrt::Failure(
        meshrt::Cause::usage,
        "the ranks are on several hosts: a description is measured on one, with all its ranks at once");
  std::vector<double> f32, f64, memory;
  std::vector<std::vector<double>> reduces(rank.ranks() > 1 ? std::size(sizes) : 0);
  for (int turn = 0; turn <= turns; ++turn) {  // the first one warms caches and clocks, and is not counted
    const double products = bench.products_f32(), wide = bench.products_f64(), stream = bench.memory();
    std::vector<double> calls;
    for (size_t i = 0; i < reduces.size(); ++i) calls.push_back(bench.all_reduce(i));
    if (turn == 0) continue;
    f32.push_back(products), f64.push_back(wide), memory.push_back(stream);
    for (size_t i = 0; i < calls.size(); ++i) reduces[i].push_back(calls[i]);
    tell(fmt::format("turn {} of {}", turn, turns));
  }
  Measured found;
  found.ranks = rank.ranks();
  found.gflops_f32 = 1e-9 * Bench::flops() / median(f32);
  found.gflops_f64 = 1e-9 * Bench::flops() / median(f64);
  found.memory_gbs = 1e-9 * Bench::bytes() / median(memory);
  found.spread = std::max({spread_of(f32), spread_of(f64), spread_of(memory)});
  for (size_t i = 0; i < reduces.size(); ++i) found.all_reduces.push_back({sizes[i], median(reduces[i]), 0});
  if (!reduces.empty()) fit(found);
  return found;
}

}  // namespace mesh
