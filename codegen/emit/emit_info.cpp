#include <fmt/format.h>

#include "codegen/emit/emit_parts.h"

namespace mesh {

void emit_info(EmitContext& context, CppWriter& out, const EmitOptions& options) {
  const Program& program = context.program;
  const Graph& graph = context.graph();
  out.section("what the run needs to know");
  const auto block = out.block("meshrt::ProgramInfo program_info()");
  out.line("meshrt::ProgramInfo info;");
  const auto set = [&](const char* key, const std::string& text) {
    if (!text.empty()) out.line(fmt::format("info.{} = {};", key, quoted(text)));
  };
  set("name", graph.model);
  set("spec", options.spec);
  set("spec_hash", options.spec_hash);
  set("layout", program.sharded.layout.name);
  set("mesh_name", context.mesh().name);
  set("machine", program.sharded.machine.name);
  set("precision", options.precision);
  for (const MeshAxis& axis : context.mesh().axes)
    out.line(fmt::format("info.mesh.push_back({{{}, {}, {}}});", quoted(axis.name), axis.size, axis.stride));
  for (const Dim& dim : graph.dims)
    out.line(fmt::format("info.dims.emplace_back({}, {});", quoted(dim.name), dim.size));
  if (graph.sample_dim) set("sample_dim", graph.dim(graph.sample_dim).name);
  for (const DimId dim : sample_dims(graph))
    out.line(fmt::format("info.sample_dims.push_back({});", quoted(graph.dim(dim).name)));
  for (const Metric& metric : graph.metrics) out.line(fmt::format("info.metrics.push_back({});", quoted(metric.name)));
  for (const Output& output : graph.outputs) out.line(fmt::format("info.outputs.push_back({});", quoted(output.name)));
  if (graph.objective) {
    for (const auto& [key, value] : graph.objective->rate.values)
      if (key == "rate" || key == "peak") out.line(fmt::format("info.rate = {};", number_text(value)));
  }
  out.line("info.arena_bytes = arena_bytes;");
  out.line("info.own_bytes = own_bytes;");
  for (const Span span : context.sites) {
    if (!span.known()) {
      out.line(R"(info.sites.push_back({"", 0, 0, ""});)");
      continue;
    }
    const Position position = context.sources.begin(span);
    std::string text = context.statement(span);
    const std::string head = fmt::format("info.sites.push_back({{{}, {}, {}, ", quoted(context.file_name(span)),
                                         position.line, position.column);
    const size_t room = CppWriter::width - 2 - head.size() - 6;
    if (quoted(text).size() > room) text = text.substr(0, room - 8) + "...";
    out.line(head + quoted(text) + "});");
  }
  out.line("return info;");
}

}  // namespace mesh
