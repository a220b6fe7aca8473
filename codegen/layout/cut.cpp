#include "codegen/layout/cut.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/layout/pipeline_costs.h"
#include "codegen/layout/predict.h"

namespace mesh {

std::vector<meshrt::IndexRange> turns_of_stages(const Pipeline& pipeline, size_t loop) {
  std::vector<meshrt::IndexRange> turns;
  int64_t begin = 0;  // by the loop's own count
  for (size_t before = 0; before < loop; ++before) begin -= pipeline.loops[before].turns;
  const auto own = [&](int64_t turn) { return std::clamp<int64_t>(turn, 0, pipeline.loops[loop].turns); };
  for (const int32_t size : pipeline.cut) {
    turns.push_back({own(begin), own(begin + size)});
    begin += size;
  }
  return turns;
}

std::string names_of_loops(const Graph& graph, const Pipeline& pipeline) {
  std::string text;
  for (const PipelineLoop& loop : pipeline.loops) {
    const auto grouped = std::ranges::find(graph.grouped, loop.dim, &GroupedTurns::groups);
    const DimId turns = grouped == graph.grouped.end() ? loop.dim : grouped->turns;
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", graph.dim(turns).name);
  }
  return text;
}

namespace {

/// What each coordinate has, neighbouring stages as one stretch.
meshrt::Deal deal_of(const Pipeline& pipeline, size_t loop) {
  const std::vector<int> home = pipeline.lists.rank_of_stage();
  std::vector<std::vector<meshrt::IndexRange>> table(pipeline.lists.ranks.size());
  const std::vector<meshrt::IndexRange> turns = turns_of_stages(pipeline, loop);
  for (size_t stage = 0; stage < turns.size(); ++stage) {
    if (turns[stage].size() == 0) continue;
    std::vector<meshrt::IndexRange>& own = table[static_cast<size_t>(home[stage])];
    if (!own.empty() && own.back().end == turns[stage].begin) own.back().end = turns[stage].end;
    else own.push_back(turns[stage]);
  }
  return deal_by_table(pipeline.loops[loop].turns, std::move(table));
}

/// Of a graph in which the pipeline's loops go over groups: the same pipeline of loops over the turns.
Pipeline without_groups(const Graph& graph, const Pipeline& pipeline) {
  Pipeline plain = pipeline;
  std::vector<int32_t> cut(pipeline.cut.size());
  for (size_t loop = 0; loop < pipeline.loops.size(); ++loop) {
    const auto of = std::ranges::find(graph.grouped, pipeline.loops[loop].dim, &GroupedTurns::groups);
    const int64_t size = of == graph.grouped.end() ? 1 : of->size;
    const std::vector<meshrt::IndexRange> turns = turns_of_stages(pipeline, loop);
    for (size_t stage = 0; stage < cut.size(); ++stage) cut[stage] += static_cast<int32_t>(turns[stage].size() * size);
    if (of == graph.grouped.end()) continue;
    plain.loops[loop].dim = of->turns;
    plain.loops[loop].turns *= static_cast<int32_t>(size);
  }
  set_cut(plain, std::move(cut));
  return plain;
}

}  // namespace

void set_cut(Pipeline& pipeline, std::vector<int32_t> sizes) {
  pipeline.cut = std::move(sizes);
  for (size_t loop = 0; loop < pipeline.loops.size(); ++loop) pipeline.loops[loop].deal = deal_of(pipeline, loop);
}

Layout for_groups(const Layout& layout, const Graph& graph) {
  Layout grouped = layout;
  Pipeline& pipeline = grouped.pipeline;
  std::vector<int32_t> cut(pipeline.cut.size());
  bool any = false;
  for (size_t loop = 0; loop < pipeline.loops.size(); ++loop) {
    const auto of = std::ranges::find(graph.grouped, pipeline.loops[loop].dim, &GroupedTurns::turns);
    const int64_t size = of == graph.grouped.end() ? 1 : of->size;
    const std::vector<meshrt::IndexRange> turns = turns_of_stages(layout.pipeline, loop);
    for (size_t stage = 0; stage < cut.size(); ++stage) cut[stage] += static_cast<int32_t>(turns[stage].size() / size);
    if (of == graph.grouped.end()) continue;
    pipeline.loops[loop].dim = of->groups;
    pipeline.loops[loop].turns /= static_cast<int32_t>(size);
    any = true;
  }
  if (any) set_cut(pipeline, std::move(cut));
  return grouped;
}

std::vector<PipelineLoop> all_layers(const Graph& graph, const Pipeline& pipeline) {
  std::vector<PipelineLoop> all = pipeline.loops;
  if (graph.grouped.empty()) return all;
  const Pipeline plain = without_groups(graph, pipeline);
  std::ranges::copy_if(plain.loops, std::back_inserter(all),
                       [&](const PipelineLoop& loop) { return !pipeline.loop_over(loop.dim); });
  return all;
}

std::optional<PipelineLoop> layers_over(const Graph& graph, const Pipeline& pipeline, DimId dim) {
  for (PipelineLoop& loop : all_layers(graph, pipeline))
    if (loop.dim == dim) return std::move(loop);
  return std::nullopt;
}

std::vector<meshrt::IndexRange> turns_of_stages(const Graph& graph, const Pipeline& pipeline, DimId dim) {
  if (const auto loop = pipeline.loop_over(dim)) return turns_of_stages(pipeline, *loop);
  const Pipeline plain = without_groups(graph, pipeline);
  return turns_of_stages(plain, plain.loop_over(dim).value());
}

bool cut_by_time(const ShardedGraph& placed, std::optional<int64_t> memory, Layout& layout, DiagnosticSink& sink) {
  Pipeline& pipeline = layout.pipeline;
  const std::optional<PipelineCosts> costs = pipeline_costs(placed);
  if (!costs) return false;
  const Partitioned found = cut_evenly_in_time(model_of(*costs, pipeline.lists, memory, pipeline));
  if (const auto* mistake = std::get_if<PartitionMistake>(&found)) {
    sink.error("E0422", pipeline.cut_span, "no cut of {} leaves every stage the memory that it needs",
               names_of_loops(placed.graph, pipeline))
        .here("{}", mistake->message)
        .help(mistake->help);
    return false;
  }
  std::vector<int32_t> sizes = std::get<Partition>(found).sizes;
  const int32_t group = pipeline.turns() / placed.layout.pipeline.turns();  // of turns, where these are the layers
  for (int32_t& turns : sizes) turns *= group;
  if (sizes == pipeline.cut) return false;
  set_cut(pipeline, sizes);
  for (Rule& rule : layout.rules)
    if (rule.span == pipeline.span) rule.deal = pipeline.loops[pipeline.loop_over(rule.dims[0]).value()].deal;
  return true;
}

bool cut_fits(const ShardedGraph& placed, std::optional<int64_t> memory) {
  const Pipeline& pipeline = placed.layout.pipeline;
  const std::optional<PipelineCosts> costs = pipeline_costs(placed);
  if (!costs) return true;
  const Partitioned cut = cut_by_hand(model_of(*costs, pipeline.lists, memory, pipeline), pipeline.cut);
  return std::holds_alternative<Partition>(cut);
}

void report_uneven_stages(const ShardedGraph& sharded, DiagnosticSink& sink) {
  constexpr double worth_telling_seconds = 1e-3, worth_telling_share = 0.1;  // of a step
  const Pipeline& pipeline = sharded.layout.pipeline;
  if (!pipeline || pipeline.cut_by_time || !sharded.graph.grouped.empty()) return;
  const Prediction step = predict(sharded);
  if (!step.pipeline) return;
  const PipelineModel model = model_of(step.pipeline->costs, pipeline.lists, {}, pipeline);
  const std::vector<int32_t>& sizes = pipeline.cut;
  const auto slowest = [](const Partition& cut) {
    return std::ranges::max_element(cut.stages, {}, &Partition::Share::time);
  };
  const auto now = std::get<Partition>(cut_by_hand(model, sizes)),
             best = std::get<Partition>(cut_evenly_in_time(model));
  const auto longest = slowest(now);
  const double saved = static_cast<double>(pipeline.micro_batches) * (longest->time - slowest(best)->time);
  if (saved < worth_telling_seconds || saved < worth_telling_share * step.compute_seconds) return;
  sink.lint("uneven_stages", pipeline.cut_span.known() ? pipeline.cut_span : pipeline.span,
            "the slowest stage of the pipeline takes {:.1f} times as long as it would under another cut",
            longest->time / slowest(best)->time)
      .here("stage {} of the cut {} is the slowest", longest - now.stages.begin(), cut_text(sizes))
      .help("`cut: {}` would be even in time; `cut: \"auto\"` finds it", cut_text(best.sizes));
}

}  // namespace mesh
