#include "codegen/program/lower.h"

#include <algorithm>
#include <set>

#include "codegen/program/evaluation_cut.h"
#include "codegen/program/fuse.h"
#include "codegen/program/lowering.h"
#include "codegen/program/memory.h"
#include "codegen/program/memory_order.h"

namespace mesh {

const char* name_of(BufferKind kind) {
  switch (kind) {
    case BufferKind::input: return "input";
    case BufferKind::parameter: return "parameter";
    case BufferKind::optimizer: return "optimizer";
    case BufferKind::state: return "state";
    case BufferKind::gradient: return "gradient";
    case BufferKind::activation: return "activation";
    case BufferKind::workspace: return "workspace";
    case BufferKind::result: return "result";
  }
  return "?";
}

namespace {

BufferKind kind_of(StoredKind kind) {
  switch (kind) {
    case StoredKind::input: return BufferKind::input;
    case StoredKind::parameter: return BufferKind::parameter;
    case StoredKind::optimizer: return BufferKind::optimizer;
    case StoredKind::state: return BufferKind::state;
  }
  return BufferKind::state;
}

Type metric_type(Type type) { return type == Type::f64 ? Type::f64 : Type::f32; }

BufferId stored_buffer(Program& program, const ShardedGraph& sharded, const Stored& stored, StoredId id) {
  Buffer buffer{unique_name(program, stored_name(sharded.graph, id)),
                stored.path,
                stored.type.element,
                {},
                kind_of(stored.kind),
                Space::own,
                id,
                {},
                0,
                -1,
                stored.span};
  if (stored.kind == StoredKind::parameter) buffer.space = Space::arena;
  for (size_t i = 0; i < stored.type.dims.size(); ++i)
    buffer.dims.push_back({stored.type.dims[i], sharded.placement(stored.value).dims[i]});
  buffer.elements = local_elements(sharded.graph, sharded.layout.mesh, stored.type, sharded.placement(stored.value));
  program.buffers.push_back(std::move(buffer));
  return {static_cast<uint32_t>(program.buffers.size() - 1)};
}

void lower_training(Program& program, const ShardedGraph& train, const std::vector<BufferId>& stored) {
  const Graph& graph = train.graph;
  Lowering lowering(program, train, stored, 0, memory_orders(graph));
  Routine routine{"train_step", {}};
  lowering.lower_root(std::vector<bool>(graph.nodes.size(), true), routine.steps);
  for (const Metric& metric : graph.metrics)
    program.metrics.push_back(
        lowering.own_buffer(metric.value, metric.name, metric_type(graph.type(metric.value).element)));
  for (const Wanted& wanted : graph.wanted)
    program.wanted[wanted.name] = lowering.own_buffer(wanted.value, wanted.name, graph.type(wanted.value).element);
  for (const Output& output : graph.outputs)
    program.outputs.push_back(output.stored ? stored[output.stored.index]
                                            : lowering.output_buffer(output.value, output.name));
  program.routines.push_back(std::move(routine));
}

void lower_evaluation(Program& program, const ShardedGraph& evaluate, const std::vector<BufferId>& stored) {
  const Graph& graph = evaluate.graph;
  const auto first_step = static_cast<uint32_t>(program.sharded.steps.size());
  program.sharded.steps.insert(program.sharded.steps.end(), evaluate.steps.begin(), evaluate.steps.end());
  Lowering batch(program, evaluate, stored, first_step, memory_orders(graph));
  Lowering finish(program, evaluate, stored, first_step, memory_orders(graph));
  const EvaluationCut cut = cut_evaluation(graph, batch);
  const auto accumulator = [&](ValueId value, Reduce reduce) {
    const BufferId total = batch.new_buffer(value, BufferKind::result);
    if (program.buffer(total).type == Type::f32) program.buffer(total).type = Type::f64;  // of many batches
    program.accumulators.push_back({total, reduce});
    return total;
  };

  Routine step{"evaluate_step", {}}, end{"evaluate_finish", {}};
  for (const EvaluationCut::Carried& one : cut.carried) batch.keep(one.value);
  batch.lower_root(cut.batch, step.steps);
  for (const EvaluationCut::Carried& one : cut.carried) {
    const BufferId total = accumulator(one.value, one.reduce);
    batch.add_to(one.value, total, one.reduce);
    finish.preset(one.value, Access{total, {}});
  }
  std::vector<BufferId> totals(graph.metrics.size());
  BufferId batches;
  for (size_t i = 0; i < graph.metrics.size(); ++i) {
    if (!cut.averaged[i]) continue;
    totals[i] = accumulator(graph.metrics[i].value, Reduce::sum);
    batch.add_to(graph.metrics[i].value, totals[i], Reduce::sum);
    if (!batches) batches = batch.count_to("batches", graph.metrics[i].span);
  }
  if (batches) program.accumulators.push_back({batches, Reduce::sum});
  finish.lower_root(cut.finish, end.steps);
  for (size_t i = 0; i < graph.metrics.size(); ++i) {
    const Metric& metric = graph.metrics[i];
    const Type type = metric_type(graph.type(metric.value).element);
    program.evaluated.push_back(cut.averaged[i] ? finish.average(totals[i], batches, metric.name, type)
                                                : finish.own_buffer(metric.value, metric.name, type));
  }
  program.routines.push_back(std::move(step));
  program.routines.push_back(std::move(end));
}

}  // namespace

Program lower(const ShardedGraph& train, const ShardedGraph* evaluate, const LowerOptions& options) {
  Program program;
  program.sharded = train;
  std::vector<BufferId> stored;
  for (uint32_t i = 0; i < train.graph.stored.size(); ++i)
    stored.push_back(stored_buffer(program, train, train.graph.stored[i], {i}));
  lower_training(program, train, stored);
  if (evaluate) {
    std::vector<BufferId> same;
    for (const Stored& of : evaluate->graph.stored) {
      const auto found = std::find_if(train.graph.stored.begin(), train.graph.stored.end(),
                                      [&](const Stored& other) { return other.path == of.path; });
      if (found == train.graph.stored.end()) internal_error("the training step knows no tensor " + of.path);
      same.push_back(stored[static_cast<size_t>(found - train.graph.stored.begin())]);
    }
    lower_evaluation(program, *evaluate, same);
  }
  if (options.fuse) fuse(program);
  plan_memory(program, options.share_memory);
  return program;
}

}  // namespace mesh
