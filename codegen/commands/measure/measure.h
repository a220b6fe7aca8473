// measure.h: how fast the cores of the hosts at hand and what joins them are, by short runs of the runtime's own
// kernels on all ranks at once.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/layout/machine.h"
#include "meshrt/rank.h"

namespace mesh {

/// Calls of one kind, by what a rank sends in one.
struct MeasuredCalls {
  struct Size {
    int64_t sent;    // bytes
    double seconds;  // of one call
    double gbs;      // beside the latency
  };
  double latency_us = 0;  // of a round
  std::vector<Size> sizes;
};

/// What joins the ranks of a host, or the hosts.
struct MeasuredLink {
  int ranks;  // of a group
  MeasuredCalls all_reduce, send;
  Meetings meetings;
};

struct Measured {
  int hosts = 1, ranks = 1;                                // ranks of a host
  double gflops_f32 = 0, gflops_f64 = 0, gflops_bf16 = 0;  // of a rank, while all work
  double gflops_attention = 0, gflops_attention_bf16 = 0;  // in f32, and of operands in bf16
  double gflops_elementwise = 0;                           // in f32
  Rate memory;                                             // by bytes that are touched
  std::optional<MeasuredLink> node, network;               // nothing where there is none
  double spread = 0;                                       // how far turns lie apart, by the median
};

/// Collective; all ranks get the same. `tell` is called as something becomes known, with a line on it. Throws
/// meshrt::Failure (Cause::usage) where hosts have different numbers of ranks, or a host's are not numbered in a row.
Measured measure_hosts(meshrt::Rank&, const std::function<void(const std::string&)>& tell);

}  // namespace mesh
