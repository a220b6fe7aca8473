#include "codegen/layout/traffic.h"

#include <algorithm>

#include "codegen/layout/permutation.h"
#include "codegen/layout/redistribution.h"
#include "meshrt/collectives.h"

namespace mesh {
namespace {

/// A dim in parts.
struct DimParts {
  int64_t size, count;
  Deal deal = {};
  bool even() const { return !deal && size % count == 0; }
  int64_t largest() const {
    if (!deal) return (size + count - 1) / count;
    int64_t most = 0;
    for (int64_t part = 0; part < count; ++part) most = std::max(most, extent(part));
    return most;
  }
  /// No part is smaller.
  int64_t least() const { return deal ? 0 : size / count; }
  int64_t extent(int64_t part) const {
    return meshrt::part_begin(size, deal, part + 1, count) - meshrt::part_begin(size, deal, part, count);
  }
};

class Sender {
 public:
  Sender(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& before,
         const Placement& after, const ReshardStep& step)
      : graph_(graph),
        mesh_(mesh),
        type_(type),
        before_(before),
        after_(after),
        step_(step),
        members_(group_size(mesh, step)) {}

  int64_t bytes() const {
    const auto size = static_cast<int64_t>(meshrt::size_of(type_.element));
    if (step_.kind == CollectiveKind::all_reduce) return share(2, held(-1) * size);
    return elements() * size;
  }

 private:
  /// Of a step that sends whole elements.
  int64_t elements() const {
    if (members_ == 1) return 0;
    switch (step_.kind) {
      case CollectiveKind::reduce_scatter: return scattered() * held(step_.to_dim);
      case CollectiveKind::all_gather:
        return (members_ - 1) * parts(before_, step_.from_dim).largest() * held(step_.from_dim);
      case CollectiveKind::all_to_all: return exchanged() * held(step_.from_dim, step_.to_dim);
      case CollectiveKind::permute: return permuted();
      case CollectiveKind::redistribute: return redistributed(graph_, mesh_, type_, step_.axes, before_, after_).sent;
      case CollectiveKind::halo: return margins();
      case CollectiveKind::ring: return handed_on() * held(step_.from_dim);
      case CollectiveKind::broadcast: return (members_ - 1) * held(-1);
      case CollectiveKind::reduce: return held(-1);
      case CollectiveKind::all_reduce:
      case CollectiveKind::slice:
      case CollectiveKind::term: break;
    }
    return 0;
  }
  DimParts parts(const Placement& placement, int dim) const {
    const auto at = static_cast<size_t>(dim);
    return {graph_.dim(type_.dims[at]).size, mesh_.size(placement.dims[at].axes), placement.dims[at].deal};
  }
  int64_t share(int64_t times, int64_t bytes) const {
    return static_cast<int64_t>(static_cast<__int128>(times) * (members_ - 1) * bytes / members_);
  }
  /// Elements of the largest part before, but for the dims that the step changes.
  int64_t held(int but, int and_but = -1) const {
    int64_t n = 1;
    for (int i = 0; i < static_cast<int>(type_.dims.size()); ++i)
      if (i != but && i != and_but) n *= parts(before_, i).largest();
    return n;
  }

  // Where parts are uneven, the member that sends most is looked for. Nearly always some member has the largest part
  // and keeps the least of it, so of many members few are looked at.

  /// Of `to_dim`, what the m-th of the group gives away of a part of `whole`.
  int64_t given(const DimParts& whole, const DimParts& cut, int64_t part, int64_t m) const {
    return whole.extent(part) - cut.extent(part * members_ + m);
  }
  int64_t scattered() const {
    const DimParts whole = parts(before_, step_.to_dim), cut = parts(after_, step_.to_dim);
    if (cut.even()) return whole.largest() - cut.largest();
    const int64_t limit = whole.largest() - cut.least();
    int64_t most = 0;
    for (int64_t part = 0; part < whole.count && most < limit; ++part)
      for (int64_t m = 0; m < members_; ++m) most = std::max(most, given(whole, cut, part, m));
    return most;
  }
  int64_t exchanged() const {
    const DimParts own = parts(before_, step_.from_dim), whole = parts(before_, step_.to_dim),
                   cut = parts(after_, step_.to_dim);
    if (own.even() && cut.even()) return own.largest() * (whole.largest() - cut.largest());
    const int64_t limit = own.largest() * (whole.largest() - cut.least());
    int64_t most = 0;
    for (int64_t m = 0; m < members_ && most < limit; ++m) {
      int64_t rows = 0, columns = 0;
      for (int64_t part = m; part < own.count; part += members_) rows = std::max(rows, own.extent(part));
      for (int64_t part = 0; part < whole.count; ++part) columns = std::max(columns, given(whole, cut, part, m));
      most = std::max(most, rows * columns);
    }
    return most;
  }
  /// The largest part that changes its owner.
  int64_t permuted() const {
    bool even = true;
    for (int i = 0; i < static_cast<int>(type_.dims.size()); ++i) even = even && parts(before_, i).even();
    const int64_t limit = held(-1);
    if (even) return limit;
    int64_t most = 0;
    for (int64_t rank = 0; rank < mesh_.ranks() && most < limit; ++rank) {
      if (index_over(mesh_, step_.axes, rank) == index_over(mesh_, step_.to_axes, rank)) continue;
      int64_t n = 1;
      for (size_t i = 0; i < type_.dims.size(); ++i)
        n *= owned_positions(mesh_, graph_.dim(type_.dims[i]).size, before_.dims[i], rank).size();
      most = std::max(most, n);
    }
    return most;
  }
  /// Of the dim, the parts that a member sends: of what is read its own and those that it meets but for the last, of
  /// sums those that it meets.
  int64_t handed_on() const {
    const DimParts own = parts(before_, step_.from_dim);
    const auto turns = static_cast<int64_t>(step_.meets.size());
    if (own.even()) return turns * own.largest();
    const bool sums = before_.circulates();
    int64_t all = 0, least = own.largest(), most = 0;
    for (int64_t member = 0; member < members_; ++member) {
      all += own.extent(member);
      least = std::min(least, own.extent(member));
    }
    if (turns + 1 == members_) return all - least;
    for (int64_t member = 0; member < members_; ++member) {
      int64_t sent = sums ? 0 : own.extent(member);
      for (size_t i = 0; i < step_.meets.size() - (sums ? 0 : 1); ++i)
        sent += own.extent((member + members_ - step_.meets[i]) % members_);
      most = std::max(most, sent);
    }
    return most;
  }
  /// Whole slabs of what is held in the end: a row of the dim is everything else, with its margins.
  int64_t margins() const {
    const auto dim = static_cast<size_t>(step_.from_dim);
    const int64_t size = graph_.dim(type_.dims[dim]).size;
    int64_t n = margin_rows(size, mesh_.size(after_.dims[dim].axes), after_.dims[dim].margin);
    for (size_t i = 0; i < type_.dims.size(); ++i)
      if (i != dim) n *= largest_extent(mesh_, graph_.dim(type_.dims[i]).size, after_.dims[i]);
    return n;
  }

  const Graph& graph_;
  const MeshShape& mesh_;
  const ValueType& type_;
  const Placement &before_, &after_;
  const ReshardStep& step_;
  const int64_t members_;
};

}  // namespace

int64_t sent_bytes(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& before,
                   const Placement& after, const ReshardStep& step) {
  return Sender(graph, mesh, type, before, after, step).bytes();
}

int64_t margin_rows(int64_t size, int64_t parts, const Margin& margin) {
  const DimParts all{size, parts};
  std::vector<int64_t> sent(static_cast<size_t>(parts));
  for (int64_t part = 0; part < parts; ++part) {
    for (const auto& [direction, margin_size] : {std::pair(-1, margin.before), std::pair(1, margin.after)}) {
      // From the nearest parts; further ones only where these are smaller than the margin.
      int64_t missing = margin_size;
      for (int64_t steps = 1; steps < parts && missing > 0; ++steps) {
        int64_t other = part + direction * steps;
        if (other < 0 || other >= parts) {
          if (margin.edge.kind != Edge::Kind::wrap) break;
          other = (other + parts) % parts;
        }
        const int64_t rows = std::min(missing, all.extent(other));
        sent[static_cast<size_t>(other)] += rows;
        missing -= rows;
      }
    }
  }
  return *std::max_element(sent.begin(), sent.end());
}

}  // namespace mesh
