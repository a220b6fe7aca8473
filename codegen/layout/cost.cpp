#include "codegen/layout/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mesh {

bool within_node(const Machine& machine, const MeshShape& mesh, const std::vector<AxisId>& axes) {
  // Ranks are numbered in mesh order and hosts take node_ranks in a row: an axis stays on a host if a block of stride *
  // size ranks does.
  for (AxisId axis : axes)
    if (machine.node_ranks % (mesh.axes[axis].stride * mesh.axes[axis].size) != 0 && mesh.ranks() > machine.node_ranks)
      return false;
  return true;
}

namespace {

const Links& links_of(const Machine& machine, const MeshShape& mesh, const std::vector<AxisId>& axes) {
  return within_node(machine, mesh, axes) ? machine.node : machine.network;
}

}  // namespace

double collective_seconds(const Machine& machine, const MeshShape& mesh, const std::vector<AxisId>& axes,
                          CollectiveKind kind, int64_t sent, int64_t members) {
  const int64_t group = members > 0 ? members : mesh.size(axes);
  if (!sends(kind) || group == 1) return 0;
  return meeting_seconds(machine, mesh, axes, usual_work) + transfer_seconds(machine, mesh, axes, kind, sent, members);
}

double meeting_seconds(const Machine& machine, const MeshShape& mesh, const std::vector<AxisId>& axes, double work) {
  return links_of(machine, mesh, axes).meetings.seconds(work);
}

double transfer_seconds(const Machine& machine, const MeshShape& mesh, const std::vector<AxisId>& axes,
                        CollectiveKind kind, int64_t sent, int64_t members) {
  const int64_t group = members > 0 ? members : mesh.size(axes);
  if (!sends(kind) || group == 1) return 0;
  const Links& links = links_of(machine, mesh, axes);
  const bool direct = kind == CollectiveKind::permute || kind == CollectiveKind::halo ||
                      kind == CollectiveKind::redistribute || kind == CollectiveKind::broadcast ||
                      kind == CollectiveKind::reduce;
  const double rounds =
      direct ? 1 : std::ceil(std::log2(static_cast<double>(group))) * (kind == CollectiveKind::all_reduce ? 2 : 1);
  const Link& link = direct ? links.sends() : links.together;
  return rounds * (1e-6 * link.latency_us) + link.gbs.seconds(static_cast<double>(sent));
}

double ring_seconds(const Machine& machine, const MeshShape& mesh, const ReshardStep& ring) {
  return static_cast<double>(ring.meets.size()) *
             collective_seconds(machine, mesh, ring.axes, CollectiveKind::permute, 0) +
         links_of(machine, mesh, ring.axes).sends().gbs.seconds(static_cast<double>(ring.bytes));
}

double ring_wait(const Machine& machine, const MeshShape& mesh, std::span<const ReshardStep* const> rings,
                 double work) {
  if (rings.empty()) return 0;
  double passing = 0, calls = 0;
  for (const ReshardStep* ring : rings) {
    passing += ring->seconds;
    ReshardStep empty = *ring;
    empty.bytes = 0;
    calls += ring_seconds(machine, mesh, empty);
  }
  const auto turns = static_cast<double>(rings.front()->meets.size());
  const double meanwhile = work * turns / (turns + 1);  // the last part is worked on when nothing is under way
  const double own = within_node(machine, mesh, rings.front()->axes) ? passing - calls : 0;
  return own + std::max(0.0, passing - own - meanwhile);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.0f} us", seconds * 1e6);
}

std::string micro_batches_text(int64_t count) { return fmt::format("{} micro-batch{}", count, count == 1 ? "" : "es"); }

namespace {

/// f16 is widened to f32 as it is read.
double gflops_of_products(const Machine& machine, Type type) {
  if (type == Type::bf16) return machine.gflops_bf16;
  return type == Type::f64 ? machine.gflops_f64 : machine.gflops_f32;
}

/// What is said of f32 holds in proportion for f64; other types are computed in f32, of attention all but its products.
double gflops_of(const Machine& machine, Effort effort, Type type) {
  if (effort == Effort::product) return gflops_of_products(machine, type);
  if (effort == Effort::attention && type == Type::bf16 && machine.gflops_attention_bf16)
    return *machine.gflops_attention_bf16;
  const std::optional<double>& said =
      effort == Effort::attention ? machine.gflops_attention : machine.gflops_elementwise;
  if (!said) return gflops_of_products(machine, type);
  return type == Type::f64 ? *said * machine.gflops_f64 / machine.gflops_f32 : *said;
}

}  // namespace

double compute_seconds(const Machine& machine, Effort effort, Type type, double flops, double bytes) {
  const double gflops = gflops_of(machine, effort, type);
  return std::max(flops / (1e9 * gflops), machine.memory.seconds(bytes));
}

double touched_bytes(const Graph& graph, const Node& node, double bytes) {
  if (has_products(definition(node.op).effort(node.op))) return 0;
  return reads_beside(graph, node) ? bytes : bytes / 3;
}

}  // namespace mesh
