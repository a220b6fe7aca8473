#include "codegen/program/lower.h"

#include <algorithm>
#include <set>

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

/// The routines of a program, one after the other.
class Routines {
 public:
  /// `kept`: values of the training step that an evaluation reads when the forward part is over.
  Routines(Program& program, const ShardedGraph& train, const std::vector<ValueId>& kept)
      : program_(program), train_(train), training_(program, train, stored(), 0, memory_orders(train.graph)) {
    const Graph& graph = train.graph;
    Routine routine{"train_step", {}};
    for (const ValueId value : kept) training_.keep(value);
    training_.lower_root(std::vector<bool>(graph.nodes.size(), true), routine.steps);
    for (const Metric& metric : graph.metrics)
      program_.metrics.push_back(
          training_.own_buffer(metric.value, metric.name, metric_type(graph.type(metric.value).element)));
    for (const Wanted& wanted : graph.wanted)
      program_.wanted[wanted.name] = training_.own_buffer(wanted.value, wanted.name, graph.type(wanted.value).element);
    for (const Output& output : graph.outputs)
      program_.outputs.push_back(output.stored ? stored_[output.stored.index]
                                               : training_.output_buffer(output.value, output.name));
    program_.routines.push_back(std::move(routine));
  }

  /// The values of the training step that the evaluation reads.
  const std::vector<ValueId>& taken() const { return taken_; }

  /// `after_forward`: what metrics sum up is taken from the training step's forward part, where that computes all of
  /// it.
  void evaluation(const ShardedGraph& evaluate, bool after_forward) {
    const Graph& graph = evaluate.graph;
    const auto first_step = static_cast<uint32_t>(program_.sharded.steps.size());
    program_.sharded.steps.insert(program_.sharded.steps.end(), evaluate.steps.begin(), evaluate.steps.end());
    const std::vector<BufferId> same = stored_of(graph);
    Lowering batch(program_, evaluate, same, first_step, memory_orders(graph));
    Lowering finish(program_, evaluate, same, first_step, memory_orders(graph));
    const EvaluationCut cut = cut_evaluation(graph, batch);
    const auto accumulator = [&](ValueId value, Reduce reduce) {
      const BufferId total = batch.new_buffer(value, BufferKind::result);
      if (program_.buffer(total).type == Type::f32) program_.buffer(total).type = Type::f64;  // of many batches
      program_.accumulators.push_back({total, reduce});
      return total;
    };

    Routine step{"evaluate_step", {}}, end{"evaluate_finish", {}};
    std::vector<ValueId> needed;  // from every batch
    for (const EvaluationCut::Carried& one : cut.carried) needed.push_back(one.value);
    for (size_t i = 0; i < graph.metrics.size(); ++i)
      if (cut.averaged[i]) needed.push_back(graph.metrics[i].value);
    for (const EvaluationCut::Carried& one : cut.carried) batch.keep(one.value);
    step.after_forward = after_forward && preset_from_training(batch, evaluate, needed);
    batch.lower_root(step.after_forward ? std::vector<bool>(graph.nodes.size()) : cut.batch, step.steps);
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
    if (batches) program_.accumulators.push_back({batches, Reduce::sum});
    finish.lower_root(cut.finish, end.steps);
    for (size_t i = 0; i < graph.metrics.size(); ++i) {
      const Metric& metric = graph.metrics[i];
      const Type type = metric_type(graph.type(metric.value).element);
      program_.evaluated.push_back(cut.averaged[i] ? finish.average(totals[i], batches, metric.name, type)
                                                   : finish.own_buffer(metric.value, metric.name, type));
    }
    program_.routines.push_back(std::move(step));
    program_.routines.push_back(std::move(end));
  }

 private:
  std::vector<BufferId> stored() {
    for (uint32_t i = 0; i < train_.graph.stored.size(); ++i)
      stored_.push_back(stored_buffer(program_, train_, train_.graph.stored[i], {i}));
    return stored_;
  }

  /// The buffers of another graph's stored tensors, by path.
  std::vector<BufferId> stored_of(const Graph& graph) const {
    const std::vector<Stored>& known = train_.graph.stored;
    std::vector<BufferId> same;
    for (const Stored& of : graph.stored) {
      const auto found =
          std::find_if(known.begin(), known.end(), [&](const Stored& other) { return other.path == of.path; });
      if (found == known.end()) internal_error("the training step knows no tensor " + of.path);
      same.push_back(stored_[static_cast<size_t>(found - known.begin())]);
    }
    return same;
  }

  /// Tells the evaluation where the training step leaves what it needs; whether it has all of it, complete and lying
  /// alike.
  bool preset_from_training(Lowering& batch, const ShardedGraph& evaluate, const std::vector<ValueId>& needed) {
    SameValues same;
    const std::vector<int> trained = same.number(train_.graph), evaluated = same.number(evaluate.graph);
    std::vector<std::pair<ValueId, Access>> found;
    for (const ValueId value : needed) {
      if (batch.constant(value)) continue;
      const Placement& placement = evaluate.placement(value);
      std::optional<Access> place;
      for (uint32_t i = 0; i < trained.size() && !place && !placement.is_partial(); ++i)
        if (trained[i] == evaluated[value.index] && train_.placement({i}) == placement) {
          place = training_.found({i});
          if (place) taken_.push_back({i});
        }
      if (!place) return false;
      found.emplace_back(value, *place);
    }
    for (const auto& [value, access] : found) batch.preset(value, access);
    return !found.empty();
  }

  Program& program_;
  const ShardedGraph& train_;
  std::vector<BufferId> stored_;
  Lowering training_;
  std::vector<ValueId> taken_;
};

/// Whether what an evaluation reads of the training step's forward part is there when that part ends.
bool forward_suffices(const Program& program) {
  const Routine& train = program.routines.front();
  const size_t end = forward_steps(train);
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
        if (late || (!early && !outlive_routine(program)[read])) return false;
      }
  }
  return true;
}

Program lowered(const ShardedGraph& train, const ShardedGraph* evaluate, const LowerOptions& options,
                bool after_forward, std::vector<ValueId>& kept) {
  Program program;
  program.sharded = train;
  Routines routines(program, train, kept);
  if (evaluate) routines.evaluation(*evaluate, after_forward);
  kept = routines.taken();
  if (options.fuse) {
    fuse(program);
    combine_collectives(program);
  }
  return program;
}

}  // namespace

Program lower(const ShardedGraph& train, const ShardedGraph* evaluate, const LowerOptions& options) {
  // Once to learn what the evaluation takes from the forward part, once more with that kept.
  std::vector<ValueId> kept, none;
  lowered(train, evaluate, options, true, kept);
  Program program = lowered(train, evaluate, options, true, kept);
  if (!forward_suffices(program)) program = lowered(train, evaluate, options, false, none);
  plan_memory(program, options.share_memory);
  return program;
}

}  // namespace mesh
