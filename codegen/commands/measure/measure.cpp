#include "codegen/commands/measure/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/commands/measure/bench.h"
#include "meshrt/collectives.h"
#include "meshrt/failure.h"

namespace mesh {
namespace {

using meshrt::Rank;

// What is measured is so in turns, one thing after the other, so that other load on the hosts meets all alike.
constexpr int turns = 9;
constexpr double longer = 1.02;       // a call that sends more takes at least that much longer, whatever the noise
constexpr double least_beside = 0.1;  // of a call's time that is counted as no latency

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

/// Of what lies between the quarters, by the median.
double spread_of(std::vector<double> of) {
  std::ranges::sort(of);
  return (of[3 * of.size() / 4] - of[of.size() / 4]) / of[of.size() / 2];
}

/// How many ranks each host has; ranks of a host have the same host name.
int ranks_of_a_host(Rank& rank) {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const auto mine = static_cast<int64_t>(std::hash<std::string>{}(name));
  const auto ranks = static_cast<size_t>(rank.ranks());
  std::vector<int64_t> begin(ranks + 1), hosts(ranks);
  for (size_t i = 0; i <= ranks; ++i) begin[i] = static_cast<int64_t>(i);
  meshrt::all_gather(rank, rank.group(std::vector<meshrt::Axis>{{rank.ranks(), 1}}), {}, &mine, hosts.data(),
                     {1, begin, 1}, meshrt::Type::i64);
  const auto of_first = static_cast<size_t>(std::ranges::count(hosts, hosts.front()));
  bool regular = ranks % of_first == 0;
  for (size_t i = 0; i < ranks; ++i)
    for (size_t j = 0; j < i; ++j) regular = regular && (hosts[i] == hosts[j]) == (i / of_first == j / of_first);
  if (!regular)
    throw meshrt::Failure(meshrt::Cause::usage,
                          "a description is of hosts with the same number of ranks each, numbered in a row: "
                          "`meshrun --hosts a:2,b:2`");
  return static_cast<int>(of_first);
}

/// The times of calls, by size and turn.
using Times = std::vector<std::vector<double>>;

/// Of sizes, each of which sends `sent` of its bytes, in so many rounds.
MeasuredCalls calls_of(const Times& times, double sent, double rounds) {
  MeasuredCalls calls;
  const double shortest = median(times.front());
  calls.latency_us = 1e6 * shortest / rounds;
  double before = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    const double seconds = median(times[i]),
                 beside = std::max({seconds - shortest, longer * before, least_beside * seconds});
    const double bytes = sent * static_cast<double>(CallBench::sizes[i]);
    calls.sizes.push_back({static_cast<int64_t>(bytes), seconds, 1e-9 * bytes / beside});
    before = beside;
  }
  return calls;
}

/// What touches more takes longer, whatever the noise.
Rate memory_rates(const Times& times) {
  Rate rate;
  double before = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    before = std::max(median(times[i]), longer * before);
    rate.points.push_back({Bench::touched[i], 1e-9 * static_cast<double>(Bench::touched[i]) / before});
  }
  return rate;
}

/// One kind of links, measured turn by turn.
class LinkBench {
 public:
  LinkBench(Rank& rank, Bench& bench, meshrt::Axis axis)
      : calls_(rank, bench, axis), reduces_(CallBench::count), sends_(CallBench::count), after_work_(works.size()) {}

  void turn(bool counts) {
    for (size_t i = 0; i < works.size(); ++i)
      if (const double after = calls_.all_reduce_after(works[i]); counts) after_work_[i].push_back(after);
    for (size_t i = 0; i < CallBench::count; ++i) {
      const double reduce = calls_.all_reduce(i), send = calls_.send(i);
      if (!counts) continue;
      reduces_[i].push_back(reduce);
      sends_[i].push_back(send);
    }
  }

  MeasuredLink result() const {
    const double k = calls_.ranks();
    return {calls_.ranks(), calls_of(reduces_, 2 * (k - 1) / k, 2 * std::ceil(std::log2(k))), calls_of(sends_, 1, 1),
            meetings()};
  }

 private:
  static constexpr std::array works{100e-6, 1e-3, 10e-3};  // seconds, to a step's whole forward pass

  /// After longer work ranks wait no less, whatever the noise.
  Meetings meetings() const {
    Meetings found;
    double wait = 0;
    for (size_t i = 0; i < works.size(); ++i) {
      wait = std::max(wait, median(after_work_[i]) - median(reduces_.front()));
      if (wait > 0) found.points.push_back({1e6 * works[i], 1e6 * wait});
    }
    return found;
  }

  CallBench calls_;
  Times reduces_, sends_;
  Times after_work_;  // by work
};

}  // namespace

Measured measure_hosts(Rank& rank, const std::function<void(const std::string&)>& tell) {
  Measured found;
  found.ranks = ranks_of_a_host(rank);
  found.hosts = rank.ranks() / found.ranks;
  rank.allocate(rank.ranks() > 1 ? CallBench::arena : 64, 64);
  Bench bench(rank);
  std::optional<LinkBench> node, network;
  if (found.ranks > 1) node.emplace(rank, bench, meshrt::Axis{found.ranks, 1});
  if (found.hosts > 1) network.emplace(rank, bench, meshrt::Axis{found.hosts, found.ranks});
  std::vector<double> f32, f64, bf16, attention, attention_bf16, elementwise;
  Times memory(std::size(Bench::touched));
  for (int turn = 0; turn <= turns; ++turn) {  // the first one warms caches and clocks, and is not counted
    const double products = bench.products_f32(), wide = bench.products_f64(), narrow = bench.products_bf16(),
                 attended = bench.attention_f32(), attended_narrow = bench.attention_bf16(),
                 functions = bench.elementwise();
    for (size_t i = 0; i < memory.size(); ++i)
      if (const double seconds = bench.memory(i); turn > 0) memory[i].push_back(seconds);
    for (std::optional<LinkBench>* link : {&node, &network})
      if (*link) (*link)->turn(turn > 0);
    if (turn == 0) continue;
    f32.push_back(products), f64.push_back(wide), bf16.push_back(narrow);
    attention.push_back(attended), attention_bf16.push_back(attended_narrow), elementwise.push_back(functions);
    tell(fmt::format("turn {} of {}", turn, turns));
  }
  found.gflops_f32 = 1e-9 * Bench::flops() / median(f32);
  found.gflops_f64 = 1e-9 * Bench::flops() / median(f64);
  found.gflops_bf16 = 1e-9 * Bench::flops() / median(bf16);
  found.gflops_attention = 1e-9 * Bench::attention_flops() / median(attention);
  found.gflops_attention_bf16 = 1e-9 * Bench::attention_flops() / median(attention_bf16);
  found.gflops_elementwise = 1e-9 * Bench::elementwise_flops() / median(elementwise);
  found.memory = memory_rates(memory);
  found.spread = std::max(
      {spread_of(f32), spread_of(f64), spread_of(attention), spread_of(elementwise), spread_of(memory.back())});
  if (node) found.node = node->result();
  if (network) found.network = network->result();
  return found;
}

}  // namespace mesh
