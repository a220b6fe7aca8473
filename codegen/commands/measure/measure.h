// measure.h: how fast the cores of this host and what joins them are, by short runs of the runtime's own kernels on all
// ranks at once.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "meshrt/rank.h"

namespace mesh {

struct Measured {
  int ranks = 1;
  double gflops_f32 = 0, gflops_f64 = 0, memory_gbs = 0;  // of a rank, while all work
  struct AllReduce {
    int64_t bytes;
    double seconds;
    double gbs;  // that a rank sends, beside the latency
  };
  std::vector<AllReduce> all_reduces;  // of all ranks, by size; none of one rank
  double latency_us = 0, gbs = 0;      // of one round, and of what a rank sends; 0 of one rank
  double spread = 0;                   // how far turns lie apart, by the median
};

/// Collective; all ranks get the same. `tell` is called as something becomes known, with a line on it. Throws
/// meshrt::Failure (Cause::usage) where the ranks are on several hosts.
Measured measure_host(meshrt::Rank&, const std::function<void(const std::string&)>& tell);

}  // namespace mesh
