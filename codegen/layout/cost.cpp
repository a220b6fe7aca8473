#include "codegen/layout/cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "meshrt/collectives.h"

namespace mesh {

int64_t collective_bytes(CollectiveKind kind, int64_t group, int64_t bytes) {
  const auto share = [&](int64_t times) {
    return static_cast<int64_t>(static_cast<__int128>(times) * (group - 1) * bytes / group);
  };
  switch (kind) {
    case CollectiveKind::all_reduce: return share(2);
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
    case CollectiveKind::broadcast:
    case CollectiveKind::all_to_all: return share(1);
    case CollectiveKind::permute: return bytes;
    case CollectiveKind::slice: return 0;
  }
  return 0;
}

int64_t margin_rows(int64_t size, int64_t parts, const Margin& margin) {
  const auto extent = [&](int64_t part) {
    return meshrt::part_begin(size, part + 1, parts) - meshrt::part_begin(size, part, parts);
  };
  std::vector<int64_t> sent(static_cast<size_t>(parts));
  for (int64_t part = 0; part < parts; ++part) {
    if (extent(part) == 0) continue;
    for (const auto& [direction, margin_size] : {std::pair(-1, margin.before), std::pair(1, margin.after)}) {
      // From the nearest parts; further ones only where these are smaller than the margin.
      int64_t missing = margin_size;
      for (int64_t steps = 1; steps < parts && missing > 0; ++steps) {
        int64_t other = part + direction * steps;
        if (other < 0 || other >= parts) {
          if (margin.edge.kind != Edge::Kind::wrap) break;
          other = (other + parts) % parts;
        }
        const int64_t rows = std::min(missing, extent(other));
        sent[static_cast<size_t>(other)] += rows;
        missing -= rows;
      }
    }
  }
  return *std::max_element(sent.begin(), sent.end());
}

bool within_node(const Machine& machine, const MeshShape& mesh, const std::vector<AxisId>& axes) {
  // Ranks are numbered in mesh order and hosts take node_ranks in a row: an axis stays on a host if a block of stride *
  // size ranks does.
  for (AxisId axis : axes)
    if (machine.node_ranks % (mesh.axes[axis].stride * mesh.axes[axis].size) != 0 && mesh.ranks() > machine.node_ranks)
      return false;
  return true;
}

double collective_seconds(const Machine& machine, const MeshShape& mesh, const std::vector<AxisId>& axes,
                          CollectiveKind kind, int64_t bytes) {
  const int64_t group = mesh.size(axes);
  if (kind == CollectiveKind::slice || group == 1) return 0;
  const bool local = within_node(machine, mesh, axes);
  const double latency = 1e-6 * (local ? machine.node_latency_us : machine.network_latency_us);
  const double rate = 1e9 * (local ? machine.node_gbs : machine.network_gbs);
  const double rounds = kind == CollectiveKind::permute ? 1
                                                        : std::ceil(std::log2(static_cast<double>(group))) *
                                                              (kind == CollectiveKind::all_reduce ? 2 : 1);
  return rounds * latency + static_cast<double>(collective_bytes(kind, group, bytes)) / rate;
}

double compute_seconds(const Machine& machine, Type type, double flops, double bytes) {
  const double gflops = type == Type::f64                         ? machine.gflops_f64
                        : type == Type::bf16 || type == Type::f16 ? machine.gflops_bf16
                                                                  : machine.gflops_f32;
  return std::max(flops / (1e9 * gflops), bytes / (1e9 * machine.memory_gbs));
}

}  // namespace mesh
