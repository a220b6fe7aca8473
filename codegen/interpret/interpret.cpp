#include "codegen/interpret/interpret.h"

#include <algorithm>
#include <cstring>

#include "codegen/graph/builder.h"
#include "codegen/interpret/interpreted_program.h"
#include "codegen/interpret/steps.h"
#include "codegen/optimizer/settings.h"
#include "codegen/program/accesses.h"
#include "codegen/program/pipeline_slots.h"

namespace mesh {

struct InterpretedProgram::Bound {
  Bound(const mesh::Program& program, meshrt::Rank& rank) : binding(program, rank) {}

  Binding binding;
  std::vector<std::vector<Task>> routines;
};

namespace {

meshrt::Role role_of(StoredKind kind) {
  switch (kind) {
    case StoredKind::input: return meshrt::Role::input;
    case StoredKind::parameter: return meshrt::Role::parameter;
    case StoredKind::optimizer: return meshrt::Role::optimizer;
    case StoredKind::state: return meshrt::Role::state;
    case StoredKind::cache: return meshrt::Role::cache;
  }
  internal_error("a stored tensor is of no kind");
}

int line_of(const SourceMap* sources, Span span) {
  return sources && span.known() ? static_cast<int>(sources->begin(span).line) : 0;
}

// The rank's part of a buffer, dims in the order of memory; nothing of one that lies at other coordinates.
meshrt::Tensor part_of(const Program& program, const SourceMap* sources, int64_t rank, const Buffer& buffer,
                       std::string name, meshrt::Role role, const std::vector<Where>& at = {}) {
  const MeshShape& mesh = program.sharded.layout.mesh;
  meshrt::Tensor made{std::move(name), role, buffer.type, -1, {}, nullptr, true, {}, line_of(sources, buffer.span)};
  std::vector<bool> splits(mesh.axes.size(), false);
  for (const LocalDim& held : buffer.dims) {
    const Dim& dim = program.sharded.graph.dim(held.dim);
    const Range part = local_range(program, held, rank);
    meshrt::LocalDim local{dim.name, dim.size, part.begin, part.end, {}, held.placement.deal};
    for (const AxisId axis : held.placement.axes) {
      local.axes.push_back(axis);
      splits[axis] = true;
    }
    made.dims.push_back(std::move(local));
  }
  // Of equal copies, the one at the first coordinate of every axis that does not split the value counts.
  for (const Where& where : at) {
    splits[where.axis] = true;
    made.places.push_back({static_cast<int>(where.axis), {where.coordinates.begin(), where.coordinates.end()}});
    const int64_t coordinate = mesh.coordinate(rank, where.axis);
    made.primary = made.primary && coordinate == where.coordinates.front();
    if (std::ranges::count(where.coordinates, coordinate) > 0) continue;
    for (meshrt::LocalDim& dim : made.dims) dim.begin = dim.end = 0;
  }
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (!splits[axis] && mesh.coordinate(rank, static_cast<AxisId>(axis)) != 0) made.primary = false;
  return made;
}

/// The stored tensors of a rank, then its outputs, each with the buffer that holds it.
std::vector<std::pair<meshrt::Tensor, BufferId>> held_tensors(const Program& program, const SourceMap* sources,
                                                              int64_t rank) {
  const Graph& graph = program.sharded.graph;
  std::vector<std::pair<meshrt::Tensor, BufferId>> tensors;
  for (size_t i = 0; i < graph.stored.size(); ++i) {
    const Stored& stored = graph.stored[i];
    const auto holds = [&](const Buffer& buffer) { return buffer.stored.index == i && !buffer.view_of; };
    const auto found = std::ranges::find_if(program.buffers, holds);
    if (found == program.buffers.end()) internal_error("no buffer holds " + stored.path);
    if (!std::ranges::equal(found->dims, stored.type.dims, {}, &LocalDim::dim))
      internal_error("the dims of " + stored.path + " are not in logical order in memory");
    meshrt::Tensor made = part_of(program, sources, rank, *found, stored.path, role_of(stored.kind),
                                  program.sharded.placement(stored.value).at);
    made.initial = stored.initial;
    made.line = line_of(sources, stored.span);
    if (stored.type.index_of) made.index_bound = graph.dim(stored.type.index_of).size;
    tensors.emplace_back(std::move(made), BufferId{static_cast<uint32_t>(found - program.buffers.begin())});
  }
  for (const EntryPoint& entry : program.entries)
    for (const EntryPoint::Output& output : entry.outputs) {
      if (output.stored) continue;
      const Buffer& buffer = program.buffer(output.buffer);
      if (!std::ranges::equal(buffer.dims, output.dims, {}, &LocalDim::dim))
        internal_error("the dims of output " + output.name + " are not in logical order in memory");
      tensors.emplace_back(part_of(program, sources, rank, buffer, output.name, meshrt::Role::output), output.buffer);
    }
  return tensors;
}

}  // namespace

std::vector<meshrt::Tensor> tensors_of_rank(const Program& program, const SourceMap* sources, int64_t rank) {
  std::vector<meshrt::Tensor> tensors;
  for (auto& [made, buffer] : held_tensors(program, sources, rank)) tensors.push_back(std::move(made));
  return tensors;
}

meshrt::ProgramInfo program_info(const Program& program, const SourceMap* sources) {
  const Graph& graph = program.sharded.graph;
  const Layout& layout = program.sharded.layout;
  meshrt::ProgramInfo info;
  info.name = graph.model;
  info.layout = layout.name;
  info.mesh_name = layout.mesh.name;
  info.pipeline = pipeline_info(program);
  info.machine = program.sharded.machine.name;
  for (const MeshAxis& axis : layout.mesh.axes)
    info.mesh.push_back({axis.name, static_cast<int>(axis.size), static_cast<int>(axis.stride), axis.within_node});
  for (const Dim& dim : graph.dims) info.dims.emplace_back(dim.name, dim.size);
  if (graph.sample_dim) info.sample_dim = graph.dim(graph.sample_dim).name;
  for (const DimId dim : sample_dims(graph)) info.sample_dims.push_back(graph.dim(dim).name);
  for (const Metric& metric : graph.metrics)
    if (metric.watched()) info.watched.push_back({metric.name, metric.pattern()});
    else info.metrics.push_back(metric.name);
  for (const Output& output : graph.outputs) info.outputs.push_back(output.name);
  for (const EntryPoint& entry : program.entries) {
    info.entries.push_back(
        {entry.name, entry.results.size(), entry.begins ? graph.stored[entry.begins.index].path : std::string()});
    for (const StoredId input : entry.unread) info.entries.back().unread.push_back(graph.stored[input.index].path);
    info.entries.back().after_steps = entry.after_steps;
    if (entry.samples) info.entries.back().samples = graph.dim(entry.samples).name;
  }
  if (graph.generation)
    info.generation = {graph.stored[graph.generation->input.index].path, graph.dim(graph.generation->along).name};
  if (graph.objective) {
    info.rate = replaced_rate(graph.objective->rate);
    info.optimizer = graph.objective->optimizer;
    info.settings = settings_of(graph, layout.replicas.sync, layout.replicas.outer);
  }
  info.arena_bytes = static_cast<size_t>(program.memory.arena);
  info.own_bytes = static_cast<size_t>(program.memory.own);
  for (const AxisId axis : program.memory.axes) info.memory_axes.push_back(layout.mesh.axes[axis].name);
  info.used_memory = program.memory.used;
  for (const ReshardStep& step : program.sharded.steps) {  // Site::id counts the movements
    meshrt::ProgramInfo::SourceSpan site{"", 0, 0, step.reason};
    if (sources && step.rule.known()) {
      const Position place = sources->begin(step.rule);
      site.file = sources->name(step.rule.file);
      site.line = static_cast<int>(place.line);
      site.column = static_cast<int>(place.column);
    }
    info.sites.push_back(std::move(site));
  }
  return info;
}

InterpretedProgram::InterpretedProgram(const mesh::Program& program, const SourceMap* sources)
    : program_(program), sources_(sources), info_(program_info(program, sources)) {}

InterpretedProgram::~InterpretedProgram() = default;

meshrt::Tensor InterpretedProgram::tensor(BufferId id, std::string name, meshrt::Role role) const {
  const Binding& binding = bound_->binding;
  meshrt::Tensor made = part_of(program_, sources_, binding.rank.rank(), program_.buffer(id), std::move(name), role);
  made.data = binding.memory(id);
  return made;
}

void InterpretedProgram::bind(meshrt::Rank& rank) {
  if (rank.ranks() != program_.sharded.layout.mesh.ranks())
    internal_error("a program for " + std::to_string(program_.sharded.layout.mesh.ranks()) + " ranks runs on " +
                   std::to_string(rank.ranks()));
  bound_ = std::make_unique<Bound>(program_, rank);
  tensors_.clear();
  wanted_.clear();
  for (auto& [made, id] : held_tensors(program_, sources_, rank.rank())) {
    made.data = bound_->binding.memory(id);
    tensors_.push_back(std::move(made));
  }
  for (const auto& [name, id] : program_.step().wanted) wanted_.push_back(tensor(id, name, meshrt::Role::output));
  std::vector<std::vector<Task>>& routines = bound_->routines;
  for (const Routine& routine : program_.routines) routines.push_back(bind_steps(bound_->binding, routine.steps));
  for (size_t i = 0; i < routines.size(); ++i) {
    const std::optional<uint32_t> other = program_.routines[i].after_forward_of;
    if (!other) continue;
    const std::vector<Task>& first = routines[*other];
    routines[i].insert(routines[i].begin(), first.begin(),
                       first.begin() + static_cast<std::ptrdiff_t>(forward_steps(program_.routines[*other].steps)));
  }
}

void InterpretedProgram::execute(uint32_t routine) {
  for (const Task& action : bound_->routines[routine]) action();
}

void InterpretedProgram::read_results(const EntryPoint& entry, std::span<double> results) const {
  for (size_t i = 0; i < entry.results.size(); ++i) {
    const std::byte* const at = bound_->binding.memory(entry.results[i]);
    if (program_.buffer(entry.results[i]).type == Type::f64) {
      std::memcpy(&results[i], at, sizeof(double));
    } else {
      float value;
      std::memcpy(&value, at, sizeof value);
      results[i] = value;
    }
  }
}

void InterpretedProgram::run(size_t entry, const meshrt::StepInput& input, std::span<double> results) {
  const EntryPoint& of = program_.entries[entry];
  bound_->binding.input = input;
  execute(of.run);
  if (!of.finish) read_results(of, results);
}

void InterpretedProgram::carried(size_t entry, std::vector<meshrt::Carried>& all) {
  for (const Accumulator& one : program_.entries[entry].carried) {
    const meshrt::Tensor held = tensor(one.buffer, "", meshrt::Role::metric);
    all.push_back({held.data, held.local_elements(), held.type, one.reduce});
  }
}

void InterpretedProgram::finish(size_t entry, std::span<double> results) {
  const EntryPoint& of = program_.entries[entry];
  if (!of.finish) return;
  execute(*of.finish);
  read_results(of, results);
}

}  // namespace mesh
