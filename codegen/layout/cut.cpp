#include "codegen/layout/cut.h"

#include <algorithm>

#include "codegen/layout/pipeline_costs.h"
#include "codegen/layout/predict.h"

namespace mesh {

std::vector<meshrt::IndexRange> turns_of_stages(const Pipeline& pipeline) {
  std::vector<meshrt::IndexRange> turns;
  int64_t begin = 0;
  for (const int32_t size : pipeline.cut) {
    turns.push_back({begin, begin + size});
    begin += size;
  }
  return turns;
}

namespace {

/// What each coordinate has, neighbouring stages as one stretch; by a name where there is one for that.
meshrt::Deal deal_of(const Pipeline& pipeline) {
  const std::vector<int> home = pipeline.lists.rank_of_stage();
  const auto ranks = static_cast<int32_t>(pipeline.lists.ranks.size());
  std::vector<std::vector<meshrt::IndexRange>> table(static_cast<size_t>(ranks));
  const std::vector<meshrt::IndexRange> turns = turns_of_stages(pipeline);
  for (size_t stage = 0; stage < turns.size(); ++stage) {
    std::vector<meshrt::IndexRange>& own = table[static_cast<size_t>(home[stage])];
    if (!own.empty() && own.back().end == turns[stage].begin) own.back().end = turns[stage].end;
    else own.push_back(turns[stage]);
  }
  const int64_t size = turns.back().end;
  for (const meshrt::Deal& named :
       {meshrt::Deal{}, meshrt::rounds(ranks, pipeline.lists.stages / ranks), meshrt::zigzag(ranks)}) {
    bool same = true;
    for (int64_t rank = 0; rank < ranks; ++rank)
      same = same &&
             meshrt::ranges_at(size, named, meshrt::part_begin(size, named, rank, ranks),
                               meshrt::part_begin(size, named, rank + 1, ranks)) == table[static_cast<size_t>(rank)];
    if (same) return named;
  }
  return {meshrt::Ownership::table, ranks, 1, std::move(table)};
}

}  // namespace

void set_cut(Pipeline& pipeline, std::vector<int32_t> sizes) {
  pipeline.cut = std::move(sizes);
  pipeline.deal = deal_of(pipeline);
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
  const std::vector<int32_t>& sizes = std::get<Partition>(found).sizes;
  if (sizes == pipeline.cut) return false;
  set_cut(pipeline, sizes);
  for (Rule& rule : layout.rules)
    if (rule.span == pipeline.span) rule.deal = pipeline.deal;
  return true;
}

void report_uneven_stages(const ShardedGraph& sharded, DiagnosticSink& sink) {
  constexpr double worth_telling_seconds = 1e-3, worth_telling_share = 0.1;  // of a step
  const Pipeline& pipeline = sharded.layout.pipeline;
  if (!pipeline || pipeline.cut_by_time) return;
  const Prediction step = predict(sharded);
  if (!step.pipeline) return;
  const PipelineModel model = model_of(step.pipeline->costs, sharded.graph.dim(pipeline.dim).size, pipeline.lists, {});
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
