#include "codegen/layout/split_moments.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/layout/cost.h"
#include "codegen/layout/predict.h"

namespace mesh {

namespace {

constexpr size_t most_rules = 3;
constexpr double worth = 0.03;            // of the step's time: what is predicted less may come to nothing
constexpr int64_t least_state = 1 << 20;  // bytes that a rank gets rid of: of less a step does not notice
constexpr int64_t long_piece = 16 << 10;  // bytes: some pages, over which a processor reads ahead
constexpr int64_t least_share = 8;        // a further rule is for this part of what the first one is for, or more

class Moments {
 public:
  explicit Moments(const ShardedGraph& step) : step_(step), mesh_(step.layout.mesh), graph_(step.graph) {
    std::map<std::vector<AxisId>, int64_t> bytes;
    std::map<std::string, std::vector<AxisId>> axes;  // over which a parameter's gradient is summed, by its path
    for (const PlannedCollective& one : predict(step).collectives) {
      if (one.kind != CollectiveKind::all_reduce || one.of != ValueKind::gradient || one.paths.path.empty()) continue;
      if (!within_node(step.machine, mesh_, one.axes)) continue;
      axes[one.paths.path] = one.axes;
      bytes[one.axes] += volume(one);
    }
    if (bytes.empty()) return;
    axes_ = std::ranges::max_element(bytes, {}, [](const auto& one) { return one.second; })->first;
    for (const Stored& stored : graph_.stored) {
      if (stored.kind != StoredKind::optimizer || !stored.parameter) continue;
      const Stored& parameter = graph_.stored[stored.parameter.index];
      const auto summed = axes.find(parameter.path);
      if (summed != axes.end() && summed->second == axes_ && stored.type.dims == parameter.type.dims)
        left_.push_back(&stored);
    }
  }

  /// For the dim by which most of it can be split, then for what lacks that one.
  std::vector<Rule> rules() {
    std::vector<Rule> rules;
    std::vector<DimId> before;
    for (int64_t first = 0; rules.size() < most_rules;) {
      const auto [dim, bytes] = most_frequent();
      const int64_t saved = bytes - bytes / mesh_.size(axes_);
      if (saved < (rules.empty() ? least_state : first / least_share) || saved == 0) break;
      first = std::max(first, saved);
      Rule rule;
      rule.dims = {dim};
      rule.axes = axes_;
      rule.unless = before;
      rule.scope = RuleScope::optimizer;
      rule.written = axes_text(mesh_, axes_);
      rule.because = fmt::format("the {} ranks that add up the gradients each update a part in place of all of it",
                                 mesh_.size(axes_));
      rules.push_back(std::move(rule));
      before.push_back(dim);
      std::erase_if(left_, [&, of = dim](const Stored* stored) { return has(stored->type.dims, of); });
    }
    return rules;
  }

 private:
  struct Splittable {
    int64_t bytes = 0, in_long_pieces = 0;  // of those, what a rank has in pieces that lie together
  };
  using ByDim = std::map<DimId, Splittable>;

  /// The dim by which most can be split; or one by which half as much can, if that leaves long pieces: a pass over
  /// memory that skips what is another rank's every few lines takes a third longer.
  std::pair<DimId, int64_t> most_frequent() const {
    const ByDim dims = splittable();
    if (dims.empty()) return {DimId{}, 0};
    const auto most = [&](auto count) { return std::ranges::max_element(dims, {}, count); };
    const auto any = most([](const auto& one) { return one.second.bytes; });
    const auto together = most([](const auto& one) { return one.second.in_long_pieces; });
    const auto& [dim, chosen] = *(2 * together->second.in_long_pieces >= any->second.bytes ? together : any);
    return {dim, chosen.bytes};
  }

  ByDim splittable() const {
    ByDim dims;
    for (const Stored* stored : left_) {
      const auto& placed = step_.placement(stored->value).dims;
      int64_t piece = local_elements(graph_, mesh_, stored->type, step_.placement(stored->value)) *
                      static_cast<int64_t>(size_of(stored->type.element));
      const int64_t bytes = piece;
      for (size_t i = 0; i < placed.size(); ++i) {
        const DimId dim = stored->type.dims[i];
        const int64_t size = graph_.dim(dim).size;
        if (placed[i].axes.empty() && size % mesh_.size(axes_) == 0) {
          dims[dim].bytes += bytes;
          if (piece / mesh_.size(axes_) >= long_piece) dims[dim].in_long_pieces += bytes;
        }
        piece /= std::max<int64_t>(1, largest_extent(mesh_, size, placed[i]));
      }
    }
    return dims;
  }

  const ShardedGraph& step_;
  const MeshShape& mesh_;
  const Graph& graph_;
  std::vector<AxisId> axes_;
  std::vector<const Stored*> left_;  // that no rule is for so far
};

}  // namespace

std::vector<Rule> rules_for_moments(const ShardedGraph& step) {
  const Layout& layout = step.layout;
  const auto speaks = [](const Rule& rule) { return rule.scope == RuleScope::optimizer; };
  if (layout.mesh.ranks() == 1 || layout.pipeline || layout.replicas || std::ranges::any_of(layout.rules, speaks))
    return {};
  return Moments(step).rules();
}

bool is_worth_splitting(const ShardedGraph& split, const ShardedGraph& whole) {
  const double before = predict(whole).seconds();
  return before - predict(split).seconds() > worth * before;
}

}  // namespace mesh
