#include "codegen/layout/cut.h"

#include <algorithm>

#include "codegen/layout/pipeline_costs.h"
#include "codegen/layout/predict.h"

namespace mesh {

meshrt::Deal deal_of_cut(const std::vector<int32_t>& sizes) {
  int32_t turns = 0;
  std::vector<std::vector<meshrt::IndexRange>> table;
  for (const int32_t size : sizes) {
    table.push_back({{turns, turns + size}});
    turns += size;
  }
  const auto stages = static_cast<int32_t>(sizes.size());
  if (sizes == even_cut(turns, stages)) return {};
  return {meshrt::Ownership::table, stages, 1, std::move(table)};
}

bool cut_by_time(const ShardedGraph& placed, std::optional<int64_t> memory, Layout& layout, DiagnosticSink& sink) {
  Pipeline& pipeline = layout.pipeline;
  const std::optional<PipelineCosts> costs = pipeline_costs(placed);
  if (!costs) return false;
  const Partitioned found =
      cut_evenly_in_time(model_of(*costs, placed.graph.dim(pipeline.dim).size, pipeline.lists, memory));
  if (const auto* mistake = std::get_if<PartitionMistake>(&found)) {
    sink.error("E0422", pipeline.cut_span, "no cut of `{}` leaves every stage the memory that it needs",
               placed.graph.dim(pipeline.dim).name)
        .here("{}", mistake->message)
        .help(mistake->help);
    return false;
  }
  meshrt::Deal deal = deal_of_cut(std::get<Partition>(found).sizes);
  if (deal == pipeline.deal) return false;
  for (Rule& rule : layout.rules)
    if (rule.span == pipeline.span) rule.deal = deal;
  pipeline.deal = std::move(deal);
  return true;
}

void report_uneven_stages(const ShardedGraph& sharded, DiagnosticSink& sink) {
  constexpr double worth_telling_seconds = 1e-3, worth_telling_share = 0.1;  // of a step
  const Pipeline& pipeline = sharded.layout.pipeline;
  if (!pipeline || pipeline.cut_by_time) return;
  const Prediction step = predict(sharded);
  if (!step.pipeline) return;
  const PipelineModel model = model_of(step.pipeline->costs, sharded.graph.dim(pipeline.dim).size, pipeline.lists, {});
  const std::vector<int32_t> sizes = cut_of(sharded);
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
