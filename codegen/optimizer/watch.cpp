#include "codegen/optimizer/watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/value_names.h"
#include "codegen/optimizer/loss_scale.h"
#include "codegen/optimizer/norms.h"
#include "codegen/optimizer/want.h"
#include "frontend/suggest.h"

namespace mesh {

namespace {

constexpr const char *rate_name = "learning_rate", *scale_name = "loss_scale", *skipped_name = "skipped_steps";

class Watcher {
 public:
  explicit Watcher(Graph& graph) : graph_(graph), build_(graph), all_(gradients_of(graph)) {
    build_.part = Part::update;
    for (const auto& [id, gradient] : all_) gradients_[parameter_of(graph, id)] = gradient;
    for (uint32_t i = 0; i < graph.stored.size(); ++i) {
      if (graph.stored[i].kind != StoredKind::parameter) continue;
      parameters_.push_back({i});
      paths_.push_back(graph.stored[i].path);
    }
  }

  void watch(const std::string& entry, size_t number) {
    if (entry == norm_name) return watch_gradient_norm(entry, number);
    if (entry == rate_name) return watch_rate(entry, number);
    if (entry == scale_name) return watch_scaling(entry, number, loss_scale(build_), 1);
    if (entry == skipped_name) return watch_scaling(entry, number, skipped_steps(build_), 0);
    std::string pattern = entry;
    const bool of_gradient = is_gradient_name(entry, &pattern);
    const std::vector<std::string> matches = matching_paths(pattern, paths_);
    bool found = false;
    for (const std::string& path : matches) {
      const StoredId id = parameters_[static_cast<size_t>(std::ranges::find(paths_, path) - paths_.begin())];
      if (of_gradient && !gradients_.contains(id)) continue;  // frozen
      if (of_gradient) append(entry, gradient_name(path), gradients_.at(id), id, "norm_d_");
      else append(entry, path, graph_.stored[id.index].value, id, "norm_");
      found = true;
    }
    if (!matches.empty() && !found)
      throw Unwatchable(number, fmt::format("`{}` has no gradient to watch", pattern), "it is not trained");
    if (!found) refuse(entry, number);
  }

 private:
  void watch_gradient_norm(const std::string& entry, size_t number) {
    if (gradients_.empty()) refuse(entry, number);
    build_.span = graph_.objective->span;
    graph_.metrics.push_back({entry, over_replicas(build_, gradient_norm(build_, all_)), build_.span, entry});
  }

  void watch_rate(const std::string& entry, size_t number) {
    if (!graph_.objective) refuse(entry, number);
    build_.span = graph_.objective->span;
    graph_.metrics.push_back({entry, build_.value(RateOp(graph_.objective->rate), {}), build_.span, entry});
  }

  /// A run file that watches them is right for every precision: without a scale it is 1, and no step is skipped.
  void watch_scaling(const std::string& entry, size_t number, ValueId value, double unscaled) {
    if (!graph_.objective) refuse(entry, number);
    build_.span = graph_.objective->span;
    if (!value) value = build_.literal(unscaled, Type::f32);
    graph_.metrics.push_back({entry, over_replicas(build_, value), build_.span, entry});
  }

  void append(const std::string& entry, const std::string& name, ValueId value, StoredId of, const char* label) {
    const Stored& stored = graph_.stored[of.index];
    build_.span = stored.span;
    const ValueId norm = over_replicas(build_, build_.map(MapFunction::sqrt, {sum_of_squares(build_, value, of)}));
    graph_.value(norm).label = label + stored.path;
    graph_.metrics.push_back({name, norm, build_.span, entry});
  }

  [[noreturn]] void refuse(const std::string& entry, size_t number) const {
    const std::string what = fmt::format("there is nothing to watch called `{}`", entry);
    if (std::ranges::find(graph_.metrics, entry, &Metric::name) != graph_.metrics.end())
      throw Unwatchable(number, what, "a metric is logged without being watched");
    if (graph_.names.contains(entry))
      throw Unwatchable(number, what, "a value is logged by a line of the spec: `metric NAME = ...`");
    std::vector<std::string> known = paths_;
    for (const auto& [id, gradient] : gradients_) known.push_back(gradient_name(graph_.stored[id.index].path));
    if (!gradients_.empty()) known.insert(known.end(), {norm_name, rate_name});
    if (const auto near = did_you_mean(entry, known))
      throw Unwatchable(number, what, fmt::format("did you mean `{}`?", *near));
    throw Unwatchable(number, what, known.empty() ? "the model has no parameters" : "it can be " + some_of(known));
  }

  Graph& graph_;
  GraphBuilder build_;
  const std::map<StoredId, ValueId> all_;  // by what the optimizer changes
  std::map<StoredId, ValueId> gradients_;  // by parameter
  std::vector<StoredId> parameters_;
  std::vector<std::string> paths_;  // theirs
};

}  // namespace

void append_watched(Graph& graph, const std::vector<std::string>& entries) {
  Watcher watcher(graph);
  for (size_t i = 0; i < entries.size(); ++i) watcher.watch(entries[i], i);
}

}  // namespace mesh
