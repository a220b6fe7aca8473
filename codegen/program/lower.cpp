#include "codegen/program/lower.h"

#include <algorithm>
#include <set>

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

/// Which root nodes an evaluation runs batch by batch, and which once at the end. Sums over the sample dim that metrics
/// read are cut points: they add up over batches.
class Cut {
 public:
  Cut(const Graph& graph, const Lowering& lowering)
      : finish(graph.nodes.size()), batch(graph.nodes.size()), graph_(graph) {
    for (const Metric& metric : graph.metrics) visit_finish(metric.value, lowering);
    for (ValueId value : accumulated) visit_batch(value);
  }

  std::vector<bool> finish, batch;   // by node
  std::vector<ValueId> accumulated;  // in order of discovery

 private:
  bool is_sum_over_samples(ValueId value) const {
    const Node& node = graph_.node(graph_.value(value).producer);
    const auto* reduce = std::get_if<ReduceOp>(&node.op);
    return graph_.sample_dim && node.body == graph_.root() && reduce && reduce->reduce == Reduce::sum &&
           std::find(reduce->dims.begin(), reduce->dims.end(), graph_.sample_dim) != reduce->dims.end();
  }

  void visit_finish(ValueId value, const Lowering& lowering) {
    const NodeId id = graph_.value(value).producer;
    const Node& node = graph_.node(id);
    // A count is known to be complete only after its reshard.
    const bool count =
        std::holds_alternative<ReshardOp>(node.op) && lowering.constant(value) && is_sum_over_samples(node.inputs[0]);
    if (count || is_sum_over_samples(value)) {
      if (std::find(accumulated.begin(), accumulated.end(), value) == accumulated.end()) accumulated.push_back(value);
      return;
    }
    if (finish[id.index]) return;
    finish[id.index] = true;
    for (ValueId input : outer_inputs(id)) visit_finish(input, lowering);
  }

  void visit_batch(ValueId value) {
    const NodeId id = graph_.value(value).producer;
    if (batch[id.index]) return;
    batch[id.index] = true;
    for (ValueId input : outer_inputs(id)) visit_batch(input);
  }

  /// What a root node reads, of a loop with everything that its body reads from outside.
  std::vector<ValueId> outer_inputs(NodeId id) const {
    std::vector<ValueId> values = graph_.node(id).inputs;
    if (const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op)) collect_outer(loop->body, values);
    return values;
  }
  void collect_outer(BodyId body, std::vector<ValueId>& values) const {
    for (NodeId id : graph_.body(body).nodes) {
      for (ValueId input : graph_.node(id).inputs)
        if (graph_.value(input).body == graph_.root()) values.push_back(input);
      if (const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op)) collect_outer(loop->body, values);
    }
  }

  const Graph& graph_;
};

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
  program.routines.push_back(std::move(routine));
}

void lower_evaluation(Program& program, const ShardedGraph& evaluate, const std::vector<BufferId>& stored) {
  const Graph& graph = evaluate.graph;
  const auto first_step = static_cast<uint32_t>(program.sharded.steps.size());
  program.sharded.steps.insert(program.sharded.steps.end(), evaluate.steps.begin(), evaluate.steps.end());
  Lowering batch(program, evaluate, stored, first_step, memory_orders(graph));
  Lowering finish(program, evaluate, stored, first_step, memory_orders(graph));
  const Cut cut(graph, batch);

  Routine step{"evaluate_step", {}}, end{"evaluate_finish", {}};
  batch.lower_root(cut.batch, step.steps);
  for (ValueId value : cut.accumulated) {
    const BufferId total = batch.new_buffer(value, BufferKind::result);
    if (program.buffer(total).type == Type::f32) program.buffer(total).type = Type::f64;  // of many batches
    batch.add_to(value, total);
    program.accumulators.push_back(total);
    finish.preset(value, Access{total, {}});
  }
  finish.lower_root(cut.finish, end.steps);
  for (const Metric& metric : graph.metrics)
    program.evaluated.push_back(
        finish.own_buffer(metric.value, metric.name, metric_type(graph.type(metric.value).element)));
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
  plan_memory(program);
  return program;
}

}  // namespace mesh
