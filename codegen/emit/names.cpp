#include "codegen/emit/names.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "codegen/graph/builder.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Words = std::set<std::string, std::less<>>;

Words words_of(const char* text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// What C++ keeps for itself, and macros of headers that may_be_macro does not tell.
const Words& reserved_words() {
  static const Words words = words_of(
      "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class "
      "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype "
      "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if "
      "inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected "
      "public register reinterpret_cast requires return short signed sizeof static static_assert static_cast "
      "struct switch template this thread_local throw true try typedef typeid typename union unsigned using "
      "virtual void volatile wchar_t while xor xor_eq std meshrt mesh main errno assert unix linux L_ctermid "
      "L_cuserid L_tmpnam P_tmpdir sched_priority stdin stdout stderr");
  return words;
}

/// Whether a header of C or of the system may define the name as a macro: all capitals and more than two of them, as
/// NAN and EOF are, or a system call's number. Which of these there are differs between systems.
bool may_be_macro(const std::string& name) {
  constexpr size_t shortest = 3;
  const auto is_lower = [](unsigned char c) { return islower(c) != 0; };
  return (name.size() >= shortest && std::ranges::none_of(name, is_lower)) || name.starts_with("SYS_");
}

/// What the emitted program itself calls things, and the members of meshrt::Model.
const Words& own_words() {
  static const Words words = words_of(
      "Gathered Model Offset Plan Reduce Scattered Stack State Type Whole abs all arena arena_bytes at_line cache_at "
      "carry cols constant cos count entries exp floor in_arena in_own index_on info input_at int32_t int64_t j0 j1 "
      "known "
      "list log main make mesh meshrt normal ones optimizer_at output_at own own_bytes parameter_at place "
      "plan_all_gather plan_all_reduce plan_all_to_all plan_collectives plan_exchange_margins plan_permute "
      "plan_pipelines plan_redistribute plan_reduce_scatter poll pow program_info rank rate results rows sin size_t "
      "sqrt "
      "state_at "
      "state_of std step table_ tanh tensors truncated_normal uint8_t uniform y0 y1");
  return words;
}

/// What a loop over the dim may be called, best first: "h", "hd", "he", "hea", ...
std::vector<std::string> index_candidates(const std::string& name) {
  std::vector<std::string> candidates;
  const std::string last = name.substr(name.rfind('.') + 1);
  candidates.push_back(last.substr(0, 1));
  std::string initials;
  for (size_t i = 0; i < last.size(); ++i)
    if (i == 0 || last[i - 1] == '_') initials += last[i];
  if (initials.size() > 1) candidates.push_back(initials);
  for (size_t n = 2; n < last.size(); ++n) candidates.push_back(last.substr(0, n));
  candidates.push_back(last + "_index");
  return candidates;
}

/// The dims of slots, over which little iterates.
std::set<DimId> rings_of(const Program& program) {
  std::set<DimId> rings;
  for (const Routine& routine : program.routines)
    for (const Step& step : routine.steps)
      for_each_access(step, [&](const Access& access, Use) {
        for (size_t k = 0; k < access.turns.size(); ++k)
          if (access.turns[k].period > 0) rings.insert(program.buffer(access.buffer).dims[k].dim);
      });
  return rings;
}

}  // namespace

std::string identifier(std::string_view text) {
  std::string name;
  for (const char c : text) name += isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  // Two underscores in a row, or one and a capital in front, belong to the compiler.
  for (size_t at = 0; (at = name.find("__", at)) != std::string::npos;) name.erase(at, 1);
  if (name.empty() || isdigit(static_cast<unsigned char>(name.front())) != 0 || name.front() == '_')
    name.insert(0, "a");
  if (reserved_words().contains(name) || may_be_macro(name)) name += '_';
  return name;
}

std::string cpp_type(Type type) {
  switch (type) {
    case Type::f32: return "float";
    case Type::f64: return "double";
    case Type::i32: return "int32_t";
    case Type::i64: return "int64_t";
    case Type::u8: return "uint8_t";
    case Type::boolean: return "bool";
    case Type::bf16: return "meshrt::Bfloat16";
    case Type::f16: return "meshrt::Float16";
  }
  internal_error(std::string("arithmetic in ") + meshrt::name_of(type) + " reached the emitter");
}

Names::Names(const Program& program) : program_(program), loop_dims_(dims_of_loops(program)) {
  const Graph& graph = program.sharded.graph;
  taken_.insert(own_words().begin(), own_words().end());
  for (const EntryPoint& entry : program.entries) {
    std::string name = reserve(identifier(entry.name));
    for (const char* suffix : {"_carried", "_finish"})
      if (entry.finish) taken_.insert(name + suffix);
    entries_.push_back(std::move(name));
  }
  model_ = reserve(identifier(graph.model));
  for (const Dim& dim : graph.dims) sizes_.push_back(reserve(identifier(dim.name)));
  for (const Buffer& buffer : program.buffers)
    buffers_.push_back(buffer.view_of ? "" : reserve(identifier(buffer.name)));
  for (size_t i = 0; i < program.buffers.size(); ++i)  // a view is another way to read the same pointer
    if (program.buffers[i].view_of) buffers_[i] = buffers_[program.buffers[i].view_of.index];
  for (const MeshAxis& axis : program.sharded.layout.mesh.axes) axes_.push_back(identifier(axis.name));
  for (const Buffer& buffer : program.buffers)  // before variables of functions get names, which would hide these
    for (const LocalDim& local : buffer.dims)
      if (!local.placement.axes.empty()) part(local);
  indices_.resize(graph.dims.size());
  const std::set<DimId> rings = rings_of(program);
  const auto name_indices = [&](bool of_rings) {
    for (uint32_t id = 0; id < graph.dims.size(); ++id) {
      if (rings.contains({id}) != of_rings) continue;
      std::vector<std::string> candidates = index_candidates(graph.dims[id].name);
      auto free =
          std::ranges::find_if(candidates, [&](const std::string& one) { return !taken_.contains(identifier(one)); });
      indices_[id] = reserve(identifier(free == candidates.end() ? candidates.back() : *free));
    }
  };
  name_indices(false);
  for (const char* name : {"i", "j", "k", "n"}) flat_.push_back(reserve(name));
  name_indices(true);
  find_stacks();
  find_numbers();
  find_states();
}

void Names::find_numbers() {
  for (uint32_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& buffer = program_.buffers[i];
    if (buffer.dims.empty() && !buffer.view_of && buffer.space == Space::own && !buffer.stored && buffer.offset >= 0)
      numbers_.insert(BufferId{i});
  }
  for (const EntryPoint& entry : program_.entries)
    for (const EntryPoint::Output& output : entry.outputs)
      numbers_.erase(storage(program_, output.buffer));  // they are listed by their place
}

void Names::find_states() {
  const std::vector<Stored>& stored = program_.sharded.graph.stored;
  std::map<StoredId, OptimizerState> found;  // by parameter
  for (uint32_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& buffer = program_.buffers[i];
    if (!buffer.stored || buffer.view_of || buffer.kind != BufferKind::optimizer) continue;
    const Stored& one = stored[buffer.stored.index];
    if (!one.parameter) continue;
    OptimizerState& state = found[one.parameter];
    state.fields.push_back(one.path.substr(one.path.rfind('.') + 1));
    state.tensors.push_back(BufferId{i});
    const Buffer& first = program_.buffer(state.tensors.front());
    // The struct is filled from a parameter's path and dims: what replicas have of their own is under others.
    const Stored& parameter = stored[one.parameter.index];
    const bool of_parameter =
        one.path == parameter.path + "." + state.fields.back() && one.type.dims == parameter.type.dims;
    const bool plain = of_parameter && buffer.space == Space::own && stack_depth(BufferId{i}) == 0 &&
                       buffer.offset >= 0 && one.initial.kind == meshrt::Initial::Kind::zeros &&
                       buffer.dims == first.dims && identifier(state.fields.back()) == state.fields.back();
    const OptimizerState& model = found.begin()->second;
    const bool alike = state.fields.size() <= model.fields.size() &&
                       std::equal(state.fields.begin(), state.fields.end(), model.fields.begin()) &&
                       buffer.type == program_.buffer(model.tensors.front()).type;
    if (!plain || (&state != &model && !alike)) return;
  }
  if (found.empty() || found.begin()->second.fields.size() < 2) return;
  for (const auto& [parameter, state] : found)
    if (state.fields != found.begin()->second.fields) return;
  for (auto& [parameter, state] : found) {
    for (uint32_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].stored == parameter && !program_.buffers[i].view_of)
        state.name = reserve(buffers_[i] + "_state");
    for (size_t k = 0; k < state.tensors.size(); ++k) {
      const std::string name = state.name + "." + state.fields[k];
      for (uint32_t i = 0; i < program_.buffers.size(); ++i)
        if (storage(program_, BufferId{i}) == state.tensors[k]) buffers_[i] = name;
    }
    states_.push_back(std::move(state));
  }
}

void Names::find_stacks() {
  std::map<BufferId, std::set<size_t>> depths;  // by how many loops steps index it
  for (const Routine& routine : program_.routines)
    for (const Step& step : routine.steps)
      for_each_access(step, [&](const Access& access, mesh::Use) {
        depths[storage(program_, access.buffer)].insert(access.turns.size());
      });
  for (const EntryPoint& entry : program_.entries)
    for (const EntryPoint::Output& output : entry.outputs) depths[storage(program_, output.buffer)].insert(0);
  for (const auto& [id, used] : depths) {
    const size_t depth = *used.rbegin();
    const std::vector<LocalDim>& dims = program_.buffer(id).dims;
    const bool even = std::all_of(dims.begin() + static_cast<std::ptrdiff_t>(std::min(depth, dims.size())), dims.end(),
                                  [&](const LocalDim& dim) { return is_even(program_, dim); });
    // Of two loops the slices of the inner one may be fewer on some ranks: nobody walks over all of them.
    const bool alone = used.size() == 1 && !program_.buffer(id).stored;
    if (even && (depth == 1 || (depth == 2 && alone))) stacks_[id] = depth;
  }
}

std::string Names::reserve(std::string_view wanted) {
  std::string name(wanted);
  for (int number = 2; taken_.contains(name); ++number) name = std::string(wanted) + "_" + std::to_string(number);
  taken_.insert(name);
  return name;
}

const std::string& Names::turn_slot(LoopId id) {
  std::string& name = turn_slots_[turn(id)];
  if (name.empty()) name = reserve(turn(id) + "_slot");
  return name;
}

std::string Names::axis(AxisId id) const { return "mesh::" + axes_[id]; }

std::string Names::size(DimId id) {
  used_sizes_.insert(id);
  return sizes_[id.index];
}

/// A name with which those of the largest extent, the first index and the list of indices are free, too.
std::string Names::reserve_extent(const std::string& wanted) {
  std::string name = wanted;
  const auto names = [&] { return std::array{name, name + "_max", name + "_begin", name + "_indices"}; };
  for (int number = 2; std::ranges::any_of(names(), [&](const std::string& one) { return taken(one); }); ++number)
    name = wanted + "_" + std::to_string(number);
  for (const std::string& one : names()) taken_.insert(one);
  return name;
}

const std::string& Names::part(const LocalDim& local) {
  std::string& name = parts_[{local.dim, local.placement.axes, local.placement.deal}];
  if (!name.empty()) return name;
  std::string wanted = sizes_[local.dim.index] + "_per";
  for (const AxisId axis : local.placement.axes) wanted += "_" + axes_[axis];
  if (local.placement.deal) wanted += std::string("_") + meshrt::name_of(local.placement.deal.ownership);
  return name = reserve_extent(wanted);
}

const std::string& Names::wide(const LocalDim& local) {
  std::string& name = wide_[local];
  if (!name.empty()) return name;
  const Margin& margin = local.placement.margin;
  std::string wanted = (local.placement.axes.empty() ? sizes_[local.dim.index] : part(local)) + "_wide";
  if (margin.before != 1 || margin.after != 1)
    wanted += "_" + std::to_string(margin.before) + "_" + std::to_string(margin.after);
  return name = reserve_extent(wanted);
}

std::string Names::extent(const LocalDim& local) {
  if (local.placement.margin) {
    extent(without_margin(local));
    used_parts_[local].extent = true;
    return wide(local);
  }
  if (local.placement.axes.empty()) return size(local.dim);
  used_sizes_.insert(local.dim);
  used_parts_[local].extent = true;
  return part(local);
}

std::string Names::largest(const LocalDim& local) {
  if (is_even(program_, local)) return extent(local);
  if (local.placement.margin) {
    largest(without_margin(local));
    used_parts_[local].largest = true;
    return wide(local) + "_max";
  }
  used_sizes_.insert(local.dim);
  used_parts_[local].largest = true;
  return part(local) + "_max";
}

std::string Names::begin(const LocalDim& local) {
  if (local.placement.margin) internal_error("a part is asked for where it begins between margins");
  if (local.placement.axes.empty()) return "0";
  used_sizes_.insert(local.dim);
  used_parts_[local].begin = true;
  return part(local) + "_begin";
}

std::string Names::indices(const LocalDim& local) {
  begin(local);
  extent(local);
  used_parts_[local].indices = true;
  return part(local) + "_indices";
}

std::string Names::product(std::span<const LocalDim> dims) {
  std::string text;
  for (const LocalDim& dim : dims) text += (text.empty() ? "" : " * ") + extent(dim);
  return text.empty() ? "1" : text;
}

}  // namespace mesh
