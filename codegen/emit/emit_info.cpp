#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_parts.h"
#include "codegen/optimizer/settings.h"
#include "codegen/program/pipeline_slots.h"

namespace mesh {

namespace {

/// `meshrt::add_dims(info, "batch 16, seq 128");`, as many to a line as go.
void emit_dim_list(const Graph& graph, CppWriter& out) {
  const auto line_of = [](const std::string& list) { return "meshrt::add_dims(info, " + string_literal(list) + ");"; };
  const size_t room = CppWriter::width - 2 * static_cast<size_t>(out.depth());
  std::string list;
  size_t columns = line_of("").size();
  for (const Dim& dim : graph.dims) {
    const std::string one = fmt::format("{} {}", dim.name, dim.size);
    constexpr size_t number_width = 7;  // of every size, so that lines do not depend on them
    columns += dim.name.size() + std::max(number_width, std::to_string(dim.size).size()) + 3;
    if (!list.empty() && columns > room) {
      out.line(line_of(list));
      list.clear();
      columns = line_of(one).size() + number_width;
    }
    list += (list.empty() ? "" : ", ") + one;
  }
  if (!list.empty()) out.line(line_of(list));
}

/// `info.entries = {{"train", 2}, {"evaluate", 2}};`, or a statement an item where that would be too long.
void emit_list(CppWriter& out, const char* member, const std::vector<std::string>& items) {
  if (items.empty()) return;
  const std::string all = fmt::format("info.{} = {{{}}};", member, fmt::join(items, ", "));
  if (all.size() + 2 * static_cast<size_t>(out.depth()) <= CppWriter::width) return out.line(all);
  for (const std::string& item : items) out.line(fmt::format("info.{}.push_back({});", member, item));
}

std::vector<std::string> entry_list(const Program& program) {
  std::vector<std::string> entries;
  for (const EntryPoint& entry : program.entries) {
    const std::string head = string_literal(entry.name) + ", " + std::to_string(entry.results.size());
    const std::vector<Stored>& stored = program.sharded.graph.stored;
    std::vector<std::string> unread;
    for (const StoredId input : entry.unread) unread.push_back(string_literal(stored[input.index].path));
    if (entry.samples)
      entries.push_back(fmt::format("{{{}, \"\", {{{}}}, 0, {}}}", head, fmt::join(unread, ", "),
                                    string_literal(program.sharded.graph.dim(entry.samples).name)));
    else if (entry.after_steps > 0)
      entries.push_back(fmt::format("{{{}, \"\", {{{}}}, {}}}", head, fmt::join(unread, ", "), entry.after_steps));
    else if (!unread.empty()) entries.push_back(fmt::format("{{{}, \"\", {{{}}}}}", head, fmt::join(unread, ", ")));
    else if (!entry.begins) entries.push_back(fmt::format("{{{}}}", head));
    else entries.push_back(fmt::format("{{{}, {}}}", head, string_literal(stored[entry.begins.index].path)));
  }
  return entries;
}

/// `meshrt::add_memory(info, "input 8, parameter 3352");`, four to a line, or as many as fit.
void emit_pairs(CppWriter& out, const char* add, const std::vector<std::string>& pairs) {
  constexpr size_t most = 4;
  const auto line_of = [&](auto begin, auto end) {
    return fmt::format("meshrt::{}(info, {});", add, string_literal(fmt::format("{}", fmt::join(begin, end, ", "))));
  };
  const size_t room = CppWriter::width - 2 * static_cast<size_t>(out.depth());
  for (auto begin = pairs.begin(); begin != pairs.end();) {
    auto end = begin + 1;
    while (end != pairs.end() && static_cast<size_t>(end - begin) < most && line_of(begin, end + 1).size() <= room)
      ++end;
    out.line(line_of(begin, end));
    begin = end;
  }
}

/// In KiB.
void emit_memory_kinds(const Program& program, CppWriter& out) {
  std::vector<std::string> kinds;
  for (const auto& [kind, bytes] : program.memory.by_kind)
    if (bytes > 0) kinds.push_back(fmt::format("{} {}", name_of(kind), (bytes + 1023) / 1024));
  emit_pairs(out, "add_memory", kinds);
}

/// Of one coordinate, in KiB; as many to a line as go.
void emit_ranges(size_t index, const char* space, const std::vector<meshrt::MemoryRange>& ranges, CppWriter& out) {
  constexpr size_t kib = 1024, room = CppWriter::width - 50;
  std::string text;
  const auto end = [&] {
    if (!text.empty()) out.line(fmt::format("meshrt::add_used(info, {}, \"{}\", \"{}\");", index, space, text));
    text.clear();
  };
  for (const meshrt::MemoryRange& one : ranges) {
    const std::string range = fmt::format("{}-{}", one.begin / kib, (one.end + kib - 1) / kib);
    if (text.size() + range.size() > room) end();
    text += (text.empty() ? "" : " ") + range;
  }
  end();
}

/// What ranks use of their memory, where these are unlike parts.
void emit_used_memory(const Program& program, CppWriter& out) {
  const MemoryPlan& memory = program.memory;
  std::vector<std::string> axes;
  for (const AxisId axis : memory.axes) axes.push_back(string_literal(program.sharded.layout.mesh.axes[axis].name));
  emit_list(out, "memory_axes", axes);
  if (!axes.empty()) out.line(fmt::format("info.used_memory.resize({});", memory.used.size()));
  for (size_t i = 0; i < memory.used.size(); ++i) {
    emit_ranges(i, "arena", memory.used[i].arena, out);
    emit_ranges(i, "own", memory.used[i].own, out);
  }
}

void emit_optimizer(const Graph& graph, const Replicas& replicas, CppWriter& out) {
  out.line(fmt::format("info.rate = {};", number_text(replaced_rate(graph.objective->rate))));
  out.line(fmt::format("info.optimizer = {};", string_literal(graph.objective->optimizer)));
  std::vector<std::string> settings;
  for (const auto& [name, value] : settings_of(graph, replicas.sync, replicas.outer))
    settings.push_back(fmt::format("{} {}", name, number_text(value)));
  emit_pairs(out, "add_settings", settings);
}

void emit_sites(EmitContext& context, CppWriter& out) {
  for (const Span span : context.sites) {
    if (!span.known()) {
      out.line(R"(info.sites.push_back({"", 0, 0, ""});)");
      continue;
    }
    const Position position = context.sources.begin(span);
    std::string text = context.statement(span);
    const std::string head =
        fmt::format("info.sites.push_back({{{}, {}, {}, ", string_literal(context.sources.file_name(span)),
                    position.line, position.column);
    const size_t room = CppWriter::width - 2 * static_cast<size_t>(out.depth()) - head.size() - 4;
    if (string_literal(text).size() > room) text = text.substr(0, room - 8) + "...";
    out.line(head + string_literal(text) + "});");
  }
}

}  // namespace

void emit_info(EmitContext& context, CppWriter& out, const EmitOptions& options) {
  const Program& program = context.program;
  const Graph& graph = context.graph();
  out.section("what the run needs to know");
  const auto function = out.block("const meshrt::ProgramInfo& program_info()");
  {
    const auto known = out.block("static const meshrt::ProgramInfo known = []", "();");
    out.line("meshrt::ProgramInfo info;");
    const auto set = [&](const char* key, const std::string& text) {
      if (!text.empty()) out.line(fmt::format("info.{} = {};", key, string_literal(text)));
    };
    set("name", graph.model);
    set("spec", options.spec);
    set("spec_hash", options.spec_hash);
    set("layout", program.sharded.layout.name);
    set("mesh_name", context.mesh().name);
    set("machine", program.sharded.machine.name);
    set("precision", options.precision);
    if (multiplies(program, Type::bf16)) out.line("info.bf16 = true;");
    if (multiplies(program, Type::f16)) out.line("info.f16 = true;");
    if (has_convolutions(program)) out.line("info.convolves = true;");
    std::vector<std::string> mesh, samples, watched, metrics, outputs;
    for (const MeshAxis& axis : context.mesh().axes)
      mesh.push_back(fmt::format("{{{}, {}, {}{}}}", string_literal(axis.name), axis.size, axis.stride,
                                 axis.within_node ? ", true" : ""));
    for (const DimId dim : sample_dims(graph)) samples.push_back(string_literal(graph.dim(dim).name));
    for (const Metric& metric : graph.metrics)
      if (metric.watched())
        watched.push_back(fmt::format("{{{}, {}}}", string_literal(metric.name), string_literal(metric.pattern())));
      else metrics.push_back(string_literal(metric.name));
    for (const Output& output : graph.outputs) outputs.push_back(string_literal(output.name));
    emit_list(out, "mesh", mesh);
    if (const meshrt::PipelineInfo of = pipeline_info(program); !of.axis.empty())
      out.line(fmt::format("info.pipeline = {{{}, {}, {}, {}}};", string_literal(of.axis), string_literal(of.schedule),
                           of.micro_batches, of.in_flight));
    emit_dim_list(graph, out);
    if (graph.sample_dim) set("sample_dim", graph.dim(graph.sample_dim).name);
    emit_list(out, "sample_dims", samples);
    emit_list(out, "watched", watched);
    emit_list(out, "metrics", metrics);
    emit_list(out, "outputs", outputs);
    emit_list(out, "entries", entry_list(program));
    if (graph.generation)
      out.line(fmt::format("info.generation = {{{}, {}}};",
                           string_literal(graph.stored[graph.generation->input.index].path),
                           string_literal(graph.dim(graph.generation->along).name)));
    if (graph.objective) emit_optimizer(graph, program.sharded.layout.replicas, out);
    out.line("info.arena_bytes = arena_bytes;");
    out.line("info.own_bytes = own_bytes;");
    emit_memory_kinds(program, out);
    emit_used_memory(program, out);
    emit_sites(context, out);
    out.line("return info;");
  }
  out.line("return known;");
}

}  // namespace mesh
