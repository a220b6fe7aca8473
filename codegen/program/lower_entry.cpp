#include "codegen/program/lower_entry.h"

#include <algorithm>
#include <set>

#include "codegen/graph/rewrite.h"
#include "codegen/graph/same_values.h"
#include "codegen/layout/cut.h"
#include "codegen/program/memory_order.h"

namespace mesh {

namespace {

Type number_type(Type type) { return type == Type::f64 ? Type::f64 : Type::f32; }

/// Inputs that no node of an entry reads, and that are none of its metrics and outputs.
std::vector<uint32_t> unread_inputs(const Graph& graph) {
  std::set<ValueId> read;
  for (const Output& output : graph.outputs) read.insert(output.value);
  for (const Metric& metric : graph.metrics) read.insert(metric.value);
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes) for_each_read(graph.node(id), [&](ValueId value) { read.insert(value); });
  std::vector<uint32_t> unread;
  for (uint32_t i = 0; i < graph.stored.size(); ++i)
    if (graph.stored[i].kind == StoredKind::input && !read.contains(graph.stored[i].value)) unread.push_back(i);
  return unread;
}

/// Where ranks have several stages a step is of the turns of one.
std::vector<DimId> dims_of_turns(const ShardedGraph& sharded) {
  std::vector<DimId> turns;
  if (sharded.layout.pipeline.has_chunks())
    for (const PipelineLoop& loop : all_layers(sharded.graph, sharded.layout.pipeline)) turns.push_back(loop.dim);
  return turns;
}

}  // namespace

EntryLowering::EntryLowering(Program& program, const Entry& entry, std::vector<BufferId> stored, uint32_t first_step)
    : program_(program),
      entry_(entry),
      graph_(entry.sharded.graph),
      stored_(std::move(stored)),
      call_(program, entry.sharded, stored_, first_step, memory_orders(graph_, dims_of_turns(entry.sharded))) {
  if (!entry.over_batches) return;
  finish_.emplace(program, entry.sharded, stored_, first_step, memory_orders(graph_, dims_of_turns(entry.sharded)));
  cut_ = cut_evaluation(entry.sharded, call_);
}

std::vector<EqualValues> EntryLowering::found_in(const EntryLowering& other) const {
  if (!cut_) return {};
  SameValues same;
  const std::vector<int> theirs = same.number(other.graph_), ours = same.number(graph_);
  std::vector<ValueId> needed;
  for (const EvaluationCut::Carried& one : cut_->carried) needed.push_back(one.value);
  for (size_t i = 0; i < graph_.metrics.size(); ++i)
    if (cut_->averaged[i]) needed.push_back(graph_.metrics[i].value);
  std::vector<EqualValues> found;
  for (const ValueId value : needed) {
    if (call_.constant(value)) continue;
    const Placement& placement = entry_.sharded.placement(value);
    ValueId equal;
    for (uint32_t i = 0; i < theirs.size() && !equal; ++i)
      if (theirs[i] == ours[value.index] && other.entry_.sharded.placement({i}) == placement) equal = {i};
    if (!equal || placement.is_partial()) return {};
    found.push_back({value, equal});
  }
  return found;
}

std::optional<BufferId> EntryLowering::buffer_of(ValueId value) const {
  const std::optional<Access> access = call_.found(value);
  return access && access->maps.empty() ? std::optional(access->buffer) : std::nullopt;
}

EntryPoint EntryLowering::begin() const {
  EntryPoint made;
  made.name = entry_.name;
  made.meaning = entry_.meaning;
  made.run = static_cast<uint32_t>(program_.routines.size());
  made.after_steps = entry_.after_steps;
  if (!program_.sharded.graph.sample_dim) made.samples = graph_.sample_dim;
  if (entry_.begins) made.begins = program_.buffer(stored_[entry_.begins.index]).stored;
  // Training reads all that the run file names; a first value is made where all of that is there.
  if (!program_.entries.empty() && !entry_.begins)
    for (const uint32_t input : unread_inputs(graph_)) made.unread.push_back(program_.buffer(stored_[input]).stored);
  return made;
}

void EntryLowering::lower() {
  EntryPoint made = begin();
  if (cut_) lower_batches(made, {entry_.name, {}, {}}, cut_->batch);
  else lower_call(made);
  program_.entries.push_back(std::move(made));
}

void EntryLowering::lower_after(uint32_t routine, std::span<const EqualValues> equal, std::span<const BufferId> held) {
  EntryPoint made = begin();
  for (size_t i = 0; i < equal.size(); ++i) call_.preset(equal[i].own, Access{held[i], {}});
  lower_batches(made, {entry_.name, {}, routine}, std::vector<bool>(graph_.nodes.size()));
  program_.entries.push_back(std::move(made));
}

void EntryLowering::lower_call(EntryPoint& made) {
  Routine routine{entry_.name, {}, {}};
  call_.lower_root(std::vector<bool>(graph_.nodes.size(), true), routine.steps);
  for (const Metric& metric : graph_.metrics)
    made.results.push_back(call_.own_buffer(metric.value, metric.name, number_type(graph_.type(metric.value).element)));
  for (const Wanted& wanted : graph_.wanted)
    made.wanted[wanted.name] = call_.own_buffer(wanted.value, wanted.name, graph_.type(wanted.value).element);
  add_outputs(made);
  for (const Bound& bound : graph_.bounds) routine.bounds.push_back({bound.dim, stored_[bound.last.index]});
  program_.routines.push_back(std::move(routine));
}

/// Outputs of the first entry have the spec's names, those of another are told apart by its name.
void EntryLowering::add_outputs(EntryPoint& made) {
  const std::string prefix = program_.entries.empty() ? "" : entry_.name + ".";
  for (const Output& output : graph_.outputs) {
    const ValueType& type = output.stored ? graph_.stored[output.stored.index].type : graph_.type(output.value);
    const BufferId held = output.stored ? stored_[output.stored.index] : call_.output_buffer(output.value, output.name);
    made.outputs.push_back({prefix + output.name, held, type.dims, output.span, bool(output.stored)});
  }
}

BufferId EntryLowering::carry(EntryPoint& made, ValueId value, Reduce reduce) {
  const BufferId total = call_.new_buffer(value, BufferKind::result);
  Type& type = program_.buffer(total).type;  // wide enough for many batches
  if (type == Type::f32) type = Type::f64;
  if (type == Type::i32 && reduce == Reduce::sum) type = Type::i64;
  made.carried.push_back({total, reduce});
  return total;
}

void EntryLowering::lower_batches(EntryPoint& made, Routine step, const std::vector<bool>& nodes) {
  Routine end{entry_.name + ".finish", {}, {}};
  for (const EvaluationCut::Carried& one : cut_->carried) call_.keep(one.value);
  call_.lower_root(nodes, step.steps);
  for (const EvaluationCut::Carried& one : cut_->carried) {
    const BufferId total = carry(made, one.value, one.reduce);
    call_.add_to(one.value, total, one.reduce);
    finish_->preset(one.value, Access{total, {}});
  }
  std::vector<BufferId> totals(graph_.metrics.size());
  BufferId batches;
  for (size_t i = 0; i < graph_.metrics.size(); ++i) {
    if (!cut_->averaged[i]) continue;
    totals[i] = carry(made, graph_.metrics[i].value, Reduce::sum);
    call_.add_to(graph_.metrics[i].value, totals[i], Reduce::sum);
    if (!batches) batches = call_.count_to("batches", graph_.metrics[i].span);
  }
  if (batches) made.carried.push_back({batches, Reduce::sum});
  finish_->lower_root(cut_->finish, end.steps);
  for (size_t i = 0; i < graph_.metrics.size(); ++i) {
    const Metric& metric = graph_.metrics[i];
    const Type type = number_type(graph_.type(metric.value).element);
    made.results.push_back(cut_->averaged[i] ? finish_->average(totals[i], batches, metric.name, type)
                                             : finish_->own_buffer(metric.value, metric.name, type));
  }
  made.finish = made.run + 1;
  program_.routines.push_back(std::move(step));
  program_.routines.push_back(std::move(end));
}

}  // namespace mesh
