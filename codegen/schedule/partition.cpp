#include "codegen/schedule/partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "meshrt/log.h"

namespace mesh {

int32_t PipelineModel::ranks() const {
  return rank_of_stage.empty() ? 0 : 1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end());
}

int32_t PipelineModel::with_layers() const {
  int32_t count = 0;
  for (int32_t stage = 0; stage < stages(); ++stage) count += is_alone(stage) ? 0 : 1;
  return count;
}

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Sums over layers, and what a stage costs that has some of them.
class Costs {
 public:
  explicit Costs(const PipelineModel& model) : model_(model), time_{0}, held_{0}, kept_{0} {
    for (const PipelineLayer& layer : model.layers) {
      time_.push_back(time_.back() + layer.time);
      held_.push_back(held_.back() + layer.held);
      kept_.push_back(kept_.back() + layer.kept);
    }
  }

  double time(int32_t stage, int32_t begin, int32_t end) const {
    return time_[end] - time_[begin] + besides(stage, &PipelineLayer::time);
  }
  int64_t bytes(int32_t stage, int32_t begin, int32_t end) const {
    const InFlight& in_flight = model_.in_flight[stage];
    return held_[end] - held_[begin] + besides(stage, &PipelineLayer::held) +
           in_flight.inputs * (stage == 0 ? 0 : comes_in(begin)) +
           model_.messages * std::max(stage == 0 ? 0 : comes_in(begin), is_last(stage) ? 0 : comes_in(end)) +
           in_flight.kept * (kept_[end] - kept_[begin] + besides(stage, &PipelineLayer::kept));
  }
  bool fits(int32_t stage, int32_t begin, int32_t end) const {
    return !model_.memory || bytes(stage, begin, end) <= *model_.memory;
  }
  /// What goes over the boundary before a layer.
  int64_t comes_in(int32_t layer) const { return model_.layers[std::max(layer, 1) - 1].boundary; }

 private:
  template <class Number>
  Number besides(int32_t stage, Number PipelineLayer::*what) const {
    return (stage == 0 ? model_.before.*what : 0) + (is_last(stage) ? model_.after.*what : 0);
  }
  bool is_last(int32_t stage) const { return stage + 1 == model_.stages(); }

  const PipelineModel& model_;
  std::vector<double> time_;
  std::vector<int64_t> held_, kept_;
};

/// Cuts of all layers from one on into all stages from one on, by dynamic programming from the last stage.
class Cutter {
 public:
  explicit Cutter(const PipelineModel& model)
      : costs(model), model_(model), stages_(model.stages()), layers_(static_cast<int32_t>(model.layers.size())) {}

  /// The least that the greatest `cost` of a stage can be, over cuts whose stages are all `allowed`; `never`: none is.
  /// Neither falls back when a stage gets more layers.
  template <class Cost, class Allowed>
  double least_maximum(Cost cost, Allowed allowed) const {
    std::vector<double> rest = nothing_left();
    for (int32_t stage = stages_; stage-- > 0;)
      rest = before(stage, rest, [&](int32_t begin, const std::vector<double>& behind) {
        double least = never;
        for (int32_t end = first_end(stage, begin); end <= last_end(stage, begin) && allowed(stage, begin, end);
             ++end) {
          const double here = cost(stage, begin, end);
          if (here >= least) break;
          least = std::min(least, std::max(here, behind[end]));
        }
        return least;
      });
    return rest[0];
  }

  /// Of the cuts whose stages are all allowed, of which there is one: that with the fewest bytes over its boundaries,
  /// then the earliest.
  template <class Allowed>
  std::vector<int32_t> fewest_bytes(Allowed allowed) const {
    std::vector<std::vector<double>> from(stages_ + 1);  // by stage and first layer: bytes over boundaries behind it
    from[stages_] = nothing_left();
    const auto bytes_of = [&](int32_t stage, int32_t end) {
      const bool crosses = stage + 1 < stages_ && model_.rank_of_stage[stage] != model_.rank_of_stage[stage + 1];
      return from[stage + 1][end] + static_cast<double>(crosses ? costs.comes_in(end) : 0);
    };
    for (int32_t stage = stages_; stage-- > 0;)
      from[stage] = before(stage, from[stage + 1], [&](int32_t begin, const std::vector<double>&) {
        double fewest = never;
        for (int32_t end = first_end(stage, begin); end <= last_end(stage, begin) && allowed(stage, begin, end); ++end)
          fewest = std::min(fewest, bytes_of(stage, end));
        return fewest;
      });
    std::vector<int32_t> sizes;
    for (int32_t stage = 0, begin = 0; stage < stages_; begin += sizes[stage++]) {
      int32_t end = first_end(stage, begin);
      while (!allowed(stage, begin, end) || bytes_of(stage, end) != from[stage][begin]) ++end;
      sizes.push_back(end - begin);
    }
    return sizes;
  }

  const Costs costs;

 private:
  int32_t first_end(int32_t stage, int32_t begin) const { return model_.is_alone(stage) ? begin : begin + 1; }

  /// Every stage behind this one has a layer, but for one that has none.
  int32_t last_end(int32_t stage, int32_t begin) const {
    if (model_.is_alone(stage)) return begin;
    const bool last_alone = model_.last_alone && stage + 1 < stages_;
    return layers_ - (stages_ - stage - 1) + (last_alone ? 1 : 0);
  }

  std::vector<double> nothing_left() const {
    std::vector<double> result(layers_ + 1, never);
    result[layers_] = 0;
    return result;
  }

  template <class Best>
  std::vector<double> before(int32_t stage, const std::vector<double>& behind, Best best) const {
    std::vector<double> result(layers_ + 1, never);
    const int32_t first = stage - (model_.first_alone && stage > 0 ? 1 : 0);
    for (int32_t begin = first; begin <= layers_ && first_end(stage, begin) <= last_end(stage, begin); ++begin)
      result[begin] = best(begin, behind);
    return result;
  }

  const PipelineModel& model_;
  int32_t stages_, layers_;
};

/// The cut that is changed least: one layer at a time goes from the longest stage, or comes to the shortest.
std::vector<int32_t> nearest_cut(const PipelineModel& model, std::vector<int32_t> sizes) {
  const auto layers = static_cast<int32_t>(model.layers.size());
  if (model.first_alone) sizes.erase(sizes.begin());
  if (model.last_alone) sizes.pop_back();
  for (int32_t& size : sizes) size = std::max(size, 1);
  int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (; sum > layers; --sum) --*std::max_element(sizes.rbegin(), sizes.rend());
  for (; sum < layers; ++sum) ++*std::min_element(sizes.rbegin(), sizes.rend());
  if (model.first_alone) sizes.insert(sizes.begin(), 0);
  if (model.last_alone) sizes.push_back(0);
  return sizes;
}

std::string stages_text(const PipelineModel& model) {
  const int32_t stages = model.stages(), ranks = model.ranks();
  return stages == ranks ? fmt::format("{} stages", stages)
                         : fmt::format("{} stages ({} ranks, {} chunks each)", stages, ranks, stages / ranks);
}

std::optional<PartitionMistake> too_few_layers(const PipelineModel& model) {
  const auto layers = static_cast<int32_t>(model.layers.size());
  const int32_t stages = model.stages(), ranks = model.ranks(), chunks = stages / ranks;
  if (layers >= model.with_layers() && model.with_layers() > 0) return std::nullopt;
  std::string help = fmt::format("give at most {} ranks", std::max(1, layers / chunks));
  if (chunks > 1 && layers >= ranks) help += fmt::format(", or at most {} chunks a rank", layers / ranks);
  return PartitionMistake{fmt::format("{} layers do not give each of {} one", layers, stages_text(model)), help};
}

std::string layers_text(int32_t begin, int32_t end) {
  return end - begin == 1 ? fmt::format("layer {}", begin) : fmt::format("layers {} to {}", begin, end - 1);
}

/// What the stages and ranks of a cut cost; the mistake: a rank lacks memory.
Partitioned weighed(const PipelineModel& model, const Costs& costs, std::vector<int32_t> sizes) {
  Partition cut{std::move(sizes), {}, std::vector<Partition::Share>(model.ranks())};
  std::vector<std::string> parts(model.ranks());
  int32_t begin = 0;
  for (int32_t stage = 0; stage < model.stages(); ++stage) {
    const int32_t end = begin + cut.sizes[stage], rank = model.rank_of_stage[stage];
    cut.stages.push_back({costs.time(stage, begin, end), costs.bytes(stage, begin, end)});
    cut.ranks[rank].time += cut.stages[stage].time;
    cut.ranks[rank].bytes += cut.stages[stage].bytes;
    parts[rank] += fmt::format("{}{}, of which it holds {} at a time", parts[rank].empty() ? "" : ", and ",
                               layers_text(begin, end), model.in_flight[stage].inputs);
    begin = end;
  }
  const auto most = std::ranges::max_element(cut.ranks, {}, &Partition::Share::bytes);
  if (!model.memory || most->bytes <= *model.memory) return cut;
  const auto rank = most - cut.ranks.begin();
  return PartitionMistake{
      fmt::format("the cut {} needs {} on rank {} (micro-batches of {}), which has {}", cut_text(cut.sizes),
                  meshrt::bytes_text(most->bytes), rank, parts[rank], meshrt::bytes_text(*model.memory)),
      ""};
}

constexpr const char* less_memory =
    "recompute (`remat`), take a schedule that holds fewer micro-batches at a time, or more ranks";

}  // namespace

std::string cut_text(const std::vector<int32_t>& sizes) { return fmt::format("({})", fmt::join(sizes, ", ")); }

std::vector<int32_t> even_cut(int32_t layers, int32_t stages, bool first_alone, bool last_alone) {
  const int64_t among = stages - (first_alone ? 1 : 0) - (last_alone ? 1 : 0);
  std::vector<int32_t> sizes(first_alone ? 1 : 0, 0);
  for (int64_t stage = 0; stage < among; ++stage)
    sizes.push_back(static_cast<int32_t>((stage + 1) * layers / among - stage * layers / among));
  if (last_alone) sizes.push_back(0);
  return sizes;
}

Partitioned cut_evenly_in_time(const PipelineModel& model) {
  if (auto mistake = too_few_layers(model)) return *mistake;
  const Cutter cutter(model);
  const Costs& costs = cutter.costs;
  const auto fits = [&](int32_t stage, int32_t begin, int32_t end) { return costs.fits(stage, begin, end); };
  const double least = cutter.least_maximum(
      [&](int32_t stage, int32_t begin, int32_t end) { return costs.time(stage, begin, end); }, fits);
  if (least == never) {
    const double needed = cutter.least_maximum(
        [&](int32_t stage, int32_t begin, int32_t end) { return static_cast<double>(costs.bytes(stage, begin, end)); },
        [](int32_t, int32_t, int32_t) { return true; });
    return PartitionMistake{
        fmt::format("no cut of {} layers into {} leaves each within the {} of a rank: the least that "
                    "the largest needs is {}",
                    model.layers.size(), stages_text(model), meshrt::bytes_text(*model.memory),
                    meshrt::bytes_text(static_cast<int64_t>(needed))),
        less_memory};
  }
  const auto is_fast = [&](int32_t stage, int32_t begin, int32_t end) {
    return costs.time(stage, begin, end) <= least && fits(stage, begin, end);
  };
  const double longest = cutter.least_maximum(
      [](int32_t, int32_t begin, int32_t end) { return static_cast<double>(end - begin); }, is_fast);
  Partitioned cut = weighed(model, costs, cutter.fewest_bytes([&](int32_t stage, int32_t begin, int32_t end) {
    return end - begin <= longest && is_fast(stage, begin, end);
  }));
  if (auto* const mistake = std::get_if<PartitionMistake>(&cut)) mistake->help = less_memory;
  return cut;
}

Partitioned cut_evenly_in_number(const PipelineModel& model) {
  if (auto mistake = too_few_layers(model)) return *mistake;
  return cut_by_hand(
      model, even_cut(static_cast<int32_t>(model.layers.size()), model.stages(), model.first_alone, model.last_alone));
}

Partitioned cut_by_hand(const PipelineModel& model, const std::vector<int32_t>& sizes) {
  if (auto mistake = too_few_layers(model)) return *mistake;
  const auto layers = static_cast<int32_t>(model.layers.size());
  const auto refuse = [&](const std::string& what, const std::vector<int32_t>& instead) -> Partitioned {
    return PartitionMistake{fmt::format("the cut {} {}", cut_text(sizes), what),
                            fmt::format("the nearest is {}", cut_text(instead))};
  };
  if (static_cast<int32_t>(sizes.size()) != model.stages())
    return refuse(fmt::format("has {} parts, the pipeline {}", sizes.size(), stages_text(model)),
                  even_cut(layers, model.stages(), model.first_alone, model.last_alone));
  for (int32_t stage = 0; stage < model.stages(); ++stage) {
    const int32_t size = sizes[static_cast<size_t>(stage)];
    if (model.is_alone(stage) ? size != 0 : size < 1)
      return refuse(size < 1 ? fmt::format("leaves stage {} without a layer", stage)
                             : fmt::format("gives layers to stage {}, which has none", stage),
                    nearest_cut(model, sizes));
  }
  if (const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0}); sum != layers)
    return refuse(fmt::format("is of {} layers, but there are {}", sum, layers), nearest_cut(model, sizes));
  Partitioned cut = weighed(model, Costs(model), sizes);
  if (auto* const mistake = std::get_if<PartitionMistake>(&cut)) {
    const Partitioned other = cut_evenly_in_time(model);
    const auto* const fitting = std::get_if<Partition>(&other);
    mistake->help = fitting ? fmt::format("the cut {} fits", cut_text(fitting->sizes)) : less_memory;
  }
  return cut;
}

}  // namespace mesh
