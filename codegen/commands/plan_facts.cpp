#include "codegen/commands/plan_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "meshrt/log.h"

namespace mesh {

std::vector<PlannedTensor> planned_tensors(const Graph& graph) {
  std::vector<PlannedTensor> tensors;
  static constexpr const char* kinds[] = {"input", "parameter", "optimizer", "state"};
  std::set<ValueId> listed;
  for (const Stored& stored : graph.stored) {
    tensors.push_back({stored.path, kinds[static_cast<int>(stored.kind)], stored.value});
    listed.insert(stored.value);
  }
  std::set<ValueId> gradients;
  for (const auto& [name, value] : graph.names)
    if (name.starts_with("grad(")) gradients.insert(value);
  const auto walk = [&](const auto& self, BodyId body) -> void {
    const auto add = [&](ValueId value) {
      const std::string& name = graph.value(value).name;
      if (name.empty() || !listed.insert(value).second) return;
      tensors.push_back({name, gradients.count(value) ? "gradient" : "activation", value});
    };
    for (NodeId id : graph.body(body).nodes) {
      const Node& node = graph.node(id);
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) self(self, loop->body);
      // A moved copy is still the value; its collective is told of by itself.
      if (std::holds_alternative<ReadOp>(node.op) || std::holds_alternative<ReshardOp>(node.op)) continue;
      for (ValueId result : node.results) add(result);
    }
  };
  walk(walk, graph.root());
  // What a micro-batch adds to a gradient has its name; that row is the gradient's.
  std::set<std::string> named;
  for (const PlannedTensor& tensor : tensors)
    if (gradients.contains(tensor.value)) named.insert(tensor.name);
  std::erase_if(tensors,
                [&](const PlannedTensor& one) { return named.contains(one.name) && !gradients.contains(one.value); });
  return tensors;
}

nlohmann::ordered_json tensor_json(const ShardedGraph& sharded, const SourceMap& sources, const PlannedTensor& tensor) {
  const Graph& graph = sharded.graph;
  const MeshShape& mesh = sharded.layout.mesh;
  const ValueType& type = graph.type(tensor.value);
  const Placement& placement = sharded.placement(tensor.value);
  nlohmann::ordered_json row{
      {"name", tensor.name},
      {"kind", tensor.kind},
      {"type", type.index_of ? "index(" + graph.dim(type.index_of).name + ")" : meshrt::name_of(type.element)}};
  row["dims"] = row["placement"] = row["partial"] = row["local"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const Dim& dim = graph.dim(type.dims[i]);
    row["dims"][dim.name] = dim.size;
    row["local"][dim.name] = largest_extent(mesh, dim.size, placement.dims[i]);
    row["placement"][dim.name] = nlohmann::ordered_json::array();
    for (AxisId axis : placement.dims[i].axes) row["placement"][dim.name].push_back(mesh.axes[axis].name);
    if (placement.dims[i].deal) row["owns"][dim.name] = meshrt::to_text(placement.dims[i].deal);
  }
  for (const Partial& partial : placement.partial)
    row["partial"][mesh.axes[partial.axis].name] = meshrt::name_of(partial.reduce);
  for (const Where& where : placement.at)
    if (!where.owner) row["at"][mesh.axes[where.axis].name] = where.coordinates;
  const Span made = graph.node(graph.value(tensor.value).producer).span;
  row["bytes"] = local_bytes(graph, mesh, type, placement);
  row["file"] = sources.file_name(made);
  row["line"] = line_of(sources, made);
  return row;
}

nlohmann::ordered_json memory_json(const Program& program) {
  const auto of = [&](std::initializer_list<BufferKind> kinds) {
    int64_t bytes = 0;
    for (BufferKind kind : kinds)
      if (const auto found = program.memory.by_kind.find(kind); found != program.memory.by_kind.end())
        bytes += found->second;
    return bytes;
  };
  return {{"peak", program.memory.peak()},
          {"params", of({BufferKind::parameter, BufferKind::state, BufferKind::cache})},
          {"grads", of({BufferKind::gradient})},
          {"optimizer", of({BufferKind::optimizer})},
          {"activations", of({BufferKind::activation, BufferKind::input, BufferKind::result})},
          {"workspace", of({BufferKind::workspace})}};
}

nlohmann::ordered_json memory_of_ranks_json(const Program& program) {
  const MeshShape& mesh = program.sharded.layout.mesh;
  nlohmann::ordered_json ranks;
  for (size_t index = 0; index < program.memory.used.size(); ++index) {
    nlohmann::ordered_json at;
    int64_t stride = mesh.size(program.memory.axes);
    for (const AxisId axis : program.memory.axes) {
      stride /= mesh.axes[axis].size;
      at[mesh.axes[axis].name] = static_cast<int64_t>(index) / stride % mesh.axes[axis].size;
    }
    ranks.push_back({{"at", at}, {"bytes", program.memory.used[index].bytes()}});
  }
  return ranks;
}

std::string memory_of_ranks_text(const Program& program) {
  constexpr size_t most = 8;  // that are listed
  if (program.memory.used.empty()) return "";
  std::vector<int64_t> bytes;
  for (const meshrt::RankMemory& one : program.memory.used) bytes.push_back(static_cast<int64_t>(one.bytes()));
  std::string text;
  if (bytes.size() > most)
    text = fmt::format("{} to {}", meshrt::bytes_text(std::ranges::min(bytes)),
                       meshrt::bytes_text(std::ranges::max(bytes)));
  else
    for (const int64_t one : bytes) text += (text.empty() ? "" : ", ") + meshrt::bytes_text(one);
  return fmt::format("by {}: {}", axes_text(program.sharded.layout.mesh, program.memory.axes), text);
}

const PlannedCollective* largest_collective(const Prediction& step) {
  const auto largest = std::ranges::max_element(step.collectives, {}, [](const auto& one) { return volume(one); });
  return largest == step.collectives.end() || volume(*largest) == 0 ? nullptr : &*largest;
}

const Entry* outer_step_of(const Compiled& compiled) {
  const auto found = std::ranges::find_if(compiled.entries, [](const Entry& entry) { return entry.after_steps > 0; });
  return found == compiled.entries.end() ? nullptr : &*found;
}

std::string at_text(const LimitState& state) {
  using enum Limit::What;
  if (state.limit.what == memory || state.limit.what == bytes) return meshrt::bytes_text(state.at);
  if (state.limit.what == forbidden) return state.at == 0 ? "none" : fmt::format("{} of them", state.at);
  std::string text;
  for (const auto& [kind, count] : state.counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name_of(kind));
  return text.empty() ? "none" : text;
}

std::string room_text(const Room& room) {
  const std::string whose = room.ranks > 1 ? fmt::format("{} ranks of a host", room.ranks) : "a rank";
  return fmt::format("{}: {} of {}, {}", whose, meshrt::bytes_text(room.needed), meshrt::bytes_text(room.bytes),
                     room.fits() ? "fits" : meshrt::bytes_text(room.needed - room.bytes) + " too much");
}

uint32_t line_of(const SourceMap& sources, Span span) { return span.known() ? sources.begin(span).line : 0; }

bool is_of_model(const Graph& graph, Span span) { return !graph.objective || span.file == graph.objective->span.file; }

bool needs_call(const Graph& graph, const PlannedCollective& c) {
  return !c.in_call.empty() && (!c.named || !is_of_model(graph, c.span));
}

std::string place_text(const Graph& graph, const SourceMap& sources, const PlannedCollective& c) {
  return fmt::format("{}:{}{}", sources.file_name(c.span), line_of(sources, c.span),
                     needs_call(graph, c) ? " in " + c.in_call : "");
}

}  // namespace mesh
