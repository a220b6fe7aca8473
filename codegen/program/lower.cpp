#include "codegen/program/lower.h"

#include <algorithm>
#include <optional>

#include "codegen/graph/same_values.h"
#include "codegen/program/accesses.h"
#include "codegen/program/combine.h"
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

/// The buffers of another graph's stored tensors, by path.
std::vector<BufferId> stored_alike(const Graph& known, const std::vector<BufferId>& buffers, const Graph& graph) {
  std::vector<BufferId> same;
  for (const Stored& of : graph.stored) {
    const auto found = std::find_if(known.stored.begin(), known.stored.end(),
                                    [&](const Stored& other) { return other.path == of.path; });
    if (found == known.stored.end()) internal_error("the training step knows no tensor " + of.path);
    same.push_back(buffers[static_cast<size_t>(found - known.stored.begin())]);
  }
  return same;
}

/// A value of an evaluation, and the one of the training step that is always equal to it.
struct EqualValues {
  ValueId evaluated, trained;
};

/// The two routines of an evaluation.
class Evaluation {
 public:
  Evaluation(Program& program, const ShardedGraph& evaluate, const std::vector<BufferId>& stored, uint32_t first_step)
      : program_(program),
        evaluate_(evaluate),
        batch_(program, evaluate, stored, first_step, memory_orders(evaluate.graph)),
        finish_(program, evaluate, stored, first_step, memory_orders(evaluate.graph)),
        cut_(cut_evaluation(evaluate, batch_)) {}

  /// What every batch must give, as the training step computes it; nothing unless that computes all of it, complete and
  /// lying alike.
  std::vector<EqualValues> in_training(const ShardedGraph& train) const {
    const Graph& graph = evaluate_.graph;
    SameValues same;
    const std::vector<int> trained = same.number(train.graph), evaluated = same.number(graph);
    std::vector<ValueId> needed;
    for (const EvaluationCut::Carried& one : cut_.carried) needed.push_back(one.value);
    for (size_t i = 0; i < graph.metrics.size(); ++i)
      if (cut_.averaged[i]) needed.push_back(graph.metrics[i].value);
    std::vector<EqualValues> found;
    for (const ValueId value : needed) {
      if (batch_.constant(value)) continue;
      const Placement& placement = evaluate_.placement(value);
      ValueId equal;
      for (uint32_t i = 0; i < trained.size() && !equal; ++i)
        if (trained[i] == evaluated[value.index] && train.placement({i}) == placement) equal = {i};
      if (!equal || placement.is_partial()) return {};
      found.push_back({value, equal});
    }
    return found;
  }

  /// `equal`, if any: what the forward part of the training step leaves for the evaluation.
  void lower(const Lowering& training, const std::vector<EqualValues>& equal) {
    const Graph& graph = evaluate_.graph;
    const auto accumulator = [&](ValueId value, Reduce reduce) {
      const BufferId total = batch_.new_buffer(value, BufferKind::result);
      if (program_.buffer(total).type == Type::f32) program_.buffer(total).type = Type::f64;  // of many batches
      program_.accumulators.push_back({total, reduce});
      return total;
    };

    Routine step{"evaluate_step", {}}, end{"evaluate_finish", {}};
    step.after_forward = !equal.empty() && std::all_of(equal.begin(), equal.end(), [&](const EqualValues& one) {
      return training.found(one.trained).has_value();
    });
    if (step.after_forward)
      for (const EqualValues& one : equal) batch_.preset(one.evaluated, *training.found(one.trained));
    for (const EvaluationCut::Carried& one : cut_.carried) batch_.keep(one.value);
    batch_.lower_root(step.after_forward ? std::vector<bool>(graph.nodes.size()) : cut_.batch, step.steps);
    for (const EvaluationCut::Carried& one : cut_.carried) {
      const BufferId total = accumulator(one.value, one.reduce);
      batch_.add_to(one.value, total, one.reduce);
      finish_.preset(one.value, Access{total, {}});
    }
    std::vector<BufferId> totals(graph.metrics.size());
    BufferId batches;
    for (size_t i = 0; i < graph.metrics.size(); ++i) {
      if (!cut_.averaged[i]) continue;
      totals[i] = accumulator(graph.metrics[i].value, Reduce::sum);
      batch_.add_to(graph.metrics[i].value, totals[i], Reduce::sum);
      if (!batches) batches = batch_.count_to("batches", graph.metrics[i].span);
    }
    if (batches) program_.accumulators.push_back({batches, Reduce::sum});
    finish_.lower_root(cut_.finish, end.steps);
    for (size_t i = 0; i < graph.metrics.size(); ++i) {
      const Metric& metric = graph.metrics[i];
      const Type type = metric_type(graph.type(metric.value).element);
      program_.evaluated.push_back(cut_.averaged[i] ? finish_.average(totals[i], batches, metric.name, type)
                                                    : finish_.own_buffer(metric.value, metric.name, type));
    }
    program_.routines.push_back(std::move(step));
    program_.routines.push_back(std::move(end));
  }

 private:
  Program& program_;
  const ShardedGraph& evaluate_;
  Lowering batch_, finish_;
  const EvaluationCut cut_;
};

void lower_training(Program& program, Lowering& lowering, const Graph& graph, const std::vector<BufferId>& stored) {
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

/// Whether what an evaluation reads of the training step's forward part is there when that part ends.
bool forward_suffices(const Program& program) {
  const Routine& train = program.routines.front();
  const size_t end = forward_steps(train);
  const std::vector<bool> outlives = outlive_routine(program);
  // A small update may share a loop with the forward part: an evaluation must not make it.
  for (size_t i = 0; i < end; ++i)
    for (const uint32_t written : sets_of(program, train.steps[i]).writes)
      if (program.buffers[written].stored) return false;
  for (const Routine& routine : program.routines) {
    if (!routine.after_forward) continue;
    for (const Step& step : routine.steps)
      for (const uint32_t read : sets_of(program, step).reads) {
        bool early = false, late = false;
        for (size_t i = 0; i < train.steps.size(); ++i)
          (i < end ? early : late) |= contains(sets_of(program, train.steps[i]).writes, read);
        if (late || (!early && !outlives[read])) return false;
      }
  }
  return true;
}

/// `share`: an evaluation may begin with the forward part of the training step.
Program lowered(const ShardedGraph& train, const ShardedGraph* evaluate, const LowerOptions& options, bool share) {
  Program program;
  program.sharded = train;
  std::vector<BufferId> stored;
  for (uint32_t i = 0; i < train.graph.stored.size(); ++i)
    stored.push_back(stored_buffer(program, train, train.graph.stored[i], {i}));
  Lowering training(program, train, stored, 0, memory_orders(train.graph));
  std::optional<Evaluation> evaluation;
  std::vector<EqualValues> equal;
  if (evaluate) {
    const auto first_step = static_cast<uint32_t>(train.steps.size());
    program.sharded.steps.insert(program.sharded.steps.end(), evaluate->steps.begin(), evaluate->steps.end());
    evaluation.emplace(program, *evaluate, stored_alike(train.graph, stored, evaluate->graph), first_step);
    if (share) equal = evaluation->in_training(train);
  }
  for (const EqualValues& one : equal) training.keep(one.trained);
  lower_training(program, training, train.graph, stored);
  if (evaluation) evaluation->lower(training, equal);
  if (options.fuse) {
    fuse(program);
    combine_collectives(program);
  }
  return program;
}

}  // namespace

Program lower(const ShardedGraph& train, const ShardedGraph* evaluate, const LowerOptions& options) {
  Program program = lowered(train, evaluate, options, true);
  if (!forward_suffices(program)) program = lowered(train, evaluate, options, false);
  plan_memory(program, options.share_memory);
  return program;
}

}  // namespace mesh
