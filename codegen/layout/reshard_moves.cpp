#include "codegen/layout/reshard_moves.h"

#include <algorithm>
#include <functional>

#include "codegen/layout/permutation.h"
#include "codegen/layout/redistribution.h"

namespace mesh {
namespace {

using Axes = std::vector<AxisId>;

class Moves {
 public:
  Moves(const MeshShape& mesh, const Axes& axes, const Placement& at, const Placement& to)
      : mesh_(mesh), axes_(axes), at_(at), to_(to) {}

  void completions() {
    std::vector<Partial> pending;
    for (const Partial& partial : at_.partial)
      if (std::ranges::find(to_.partial, partial) == to_.partial.end()) pending.push_back(partial);
    for (const Reduce reduce : {Reduce::sum, Reduce::max, Reduce::min}) {
      Axes axes;
      for (const Partial& partial : pending)
        if (partial.reduce == reduce) axes.push_back(partial.axis);
      lists(axes, [&](const Axes& chosen) { complete(chosen, reduce); });
    }
  }

  /// The last axes of a dim, which then is whole but for the others, or another dim gets them.
  void departures() {
    for (int i = 0; i < dims(); ++i) {
      const Axes& axes = at_.dims[static_cast<size_t>(i)].axes;
      for (size_t kept = axes.size(); kept-- > 0;) {
        const Axes leaving(axes.begin() + static_cast<std::ptrdiff_t>(kept), axes.end());
        Placement without = at_;
        DimPlacement& dim = without.dims[static_cast<size_t>(i)];
        dim.axes.resize(kept);
        if (kept == 0 && dim.deal.in_order()) dim.deal = {};
        for (int j = 0; j < dims(); ++j)
          if (j != i) split(CollectiveKind::all_to_all, leaving, i, j, without);
        add(CollectiveKind::all_gather, leaving, i, -1, std::move(without));
      }
    }
  }

  void slices() {
    for (const AxisId axis : axes_) {
      if (at_.uses(axis)) continue;
      for (int j = 0; j < dims(); ++j) split(CollectiveKind::slice, {axis}, -1, j, at_);
    }
  }

  /// From one coordinate of an axis to all, and the reverse: from copies or terms of a sum to the one.
  void places() {
    for (const Where& where : at_.at) {
      // What varies is another turn's on each coordinate: nobody else ever needs it.
      if (where.varying || std::ranges::count(to_.at, where) > 0) continue;
      Placement after = at_;
      std::erase(after.at, where);
      add_at(CollectiveKind::broadcast, where, std::move(after));
    }
    for (const Where& where : to_.at) {
      const auto pending = std::ranges::find(at_.partial, where.axis, &Partial::axis);
      if (pending == at_.partial.end() ? at_.uses(where.axis) : where.varying) continue;
      Placement after = at_;
      after.at.insert(std::ranges::lower_bound(after.at, where), where);
      std::erase_if(after.partial, [&](const Partial& partial) { return partial.axis == where.axis; });
      if (pending == at_.partial.end()) add_at(CollectiveKind::slice, where, std::move(after));
      else add_at(CollectiveKind::reduce, where, std::move(after), pending->reduce);
    }
  }

  /// A dim is dealt as blocks, or as it is in the end.
  void deals() {
    for (int i = 0; i < dims(); ++i) {
      const auto at = static_cast<size_t>(i);
      for (const Deal& deal : {Deal{}, to_.dims[at].deal}) {
        if (deal == at_.dims[at].deal) continue;
        if (at_.dims[at].axes.empty() && deal && deal.in_order()) continue;  // as it lies
        Placement after = at_;
        after.dims[at].deal = deal;
        if (can_deal(after.dims[at])) redistribute(std::move(after));
      }
    }
  }

  /// All that is left to be done, in one step; where that is to give parts to other ranks, a permute does it, and
  /// slices where each rank keeps some of what it holds.
  void straight() {
    if (at_.partial != to_.partial || at_.at != to_.at || at_ == to_) return;
    const bool dealt_alike = std::ranges::equal(at_.dims, to_.dims, {}, &DimPlacement::deal, &DimPlacement::deal);
    const auto is_cut = [](const DimPlacement& now, const DimPlacement& end) {
      return now.axes.size() <= end.axes.size() && std::equal(now.axes.begin(), now.axes.end(), end.axes.begin());
    };
    if (dealt_alike && (std::ranges::equal(at_.dims, to_.dims, is_cut) || permutation(mesh_, at_, to_))) return;
    redistribute(to_);
  }

  /// Every placement with as many parts of each dim.
  void permutes() {
    Placement after = at_;
    for (DimPlacement& dim : after.dims) dim.axes.clear();
    deal(after, 0, 1);
  }

  std::vector<Move> all;

 private:
  int dims() const { return static_cast<int>(at_.dims.size()); }
  bool can_deal(const DimPlacement& dim) const {
    return dim.deal.in_order() || dim.deal.parts % mesh_.size(dim.axes) == 0;
  }
  /// A dim comes to be split, over further axes too: a whole one in blocks, or as the stretch that it is in the end.
  void split(CollectiveKind kind, const Axes& axes, int from_dim, int dim, Placement after,
             Reduce reduce = Reduce::sum) {
    const auto at = static_cast<size_t>(dim);
    DimPlacement& now = after.dims[at];
    const Deal& end = to_.dims[at].deal;
    const bool either = now.axes.empty() && !now.deal && end && end.in_order();
    now.axes.insert(now.axes.end(), axes.begin(), axes.end());
    if (either) {
      Placement stretched = after;
      stretched.dims[at].deal = end;
      add(kind, axes, from_dim, dim, std::move(stretched), reduce);
    }
    add(kind, axes, from_dim, dim, std::move(after), reduce);
  }
  void add(CollectiveKind kind, const Axes& axes, int from_dim, int to_dim, Placement after,
           Reduce reduce = Reduce::sum) {
    if (to_dim >= 0 && !can_deal(after.dims[static_cast<size_t>(to_dim)])) return;
    all.push_back({{kind, axes, from_dim, to_dim, {}, reduce, 0, 0, {}, {}}, std::move(after)});
  }

  void add_at(CollectiveKind kind, const Where& where, Placement after, Reduce reduce = Reduce::sum) {
    add(kind, {where.axis}, -1, -1, std::move(after), reduce);
    all.back().step.at = where;
  }

  void redistribute(Placement after) {
    const Axes moving = moving_axes(at_.dims, after.dims);
    add(CollectiveKind::redistribute, moving, -1, -1, std::move(after));
  }

  void complete(const Axes& axes, Reduce reduce) {
    Placement done = at_;
    std::erase_if(done.partial, [&](const Partial& partial) { return contains(axes, partial.axis); });
    for (int j = 0; j < dims(); ++j) split(CollectiveKind::reduce_scatter, axes, -1, j, done, reduce);
    if (std::ranges::is_sorted(axes)) add(CollectiveKind::all_reduce, axes, -1, -1, std::move(done), reduce);
  }

  /// Every list of some of the axes, in any order.
  static void lists(const Axes& axes, const std::function<void(const Axes&)>& use) {
    Axes chosen;
    const std::function<void()> more = [&] {
      if (!chosen.empty()) use(chosen);
      for (const AxisId axis : axes) {
        if (contains(chosen, axis)) continue;
        chosen.push_back(axis);
        more();
        chosen.pop_back();
      }
    };
    more();
  }

  /// Gives dim `i`, which has `parts` parts so far, as many as it has now, and then the dims behind it.
  void deal(Placement& after, size_t i, int64_t parts) {
    if (i == after.dims.size()) {
      if (after != at_) permute(after);
      return;
    }
    const int64_t wanted = mesh_.size(at_.dims[i].axes);
    if (parts == wanted) return deal(after, i + 1, 1);
    for (const AxisId axis : axes_) {
      const int64_t size = mesh_.axes[axis].size;
      if (wanted % (parts * size) != 0 || after.uses(axis)) continue;
      after.dims[i].axes.push_back(axis);
      deal(after, i, parts * size);
      after.dims[i].axes.pop_back();
    }
  }
  void permute(const Placement& after) {
    const Permutation moved = *permutation(mesh_, at_, after);
    add(CollectiveKind::permute, moved.axes, -1, -1, after);
    all.back().step.to_axes = moved.to_axes;
  }

  const MeshShape& mesh_;
  const Axes& axes_;
  const Placement &at_, &to_;
};

}  // namespace

std::vector<Move> moves(const MeshShape& mesh, const std::vector<AxisId>& axes, const Placement& at,
                        const Placement& to, bool permuted) {
  Moves found(mesh, axes, at, to);
  found.completions();
  found.departures();
  found.slices();
  found.places();
  found.deals();
  if (!permuted) found.permutes();
  found.straight();
  return std::move(found.all);
}

}  // namespace mesh
