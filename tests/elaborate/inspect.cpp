// inspect SPEC... [--model M] [--layout L] [--mesh a=2,b=2] [--ranks N] [--set dim=n] [--want NAME] [--f64]: prints
// what the front end and elaboration say of a spec, then its graph and its layout. For goldens and for looking.
#include <fmt/format.h>

#include <iostream>

#include "codegen/elaborate/elaborate.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/layout/resolve.h"
#include "codegen/layout/resolve_manual.h"
#include "frontend/imports.h"
#include "frontend/render.h"

namespace {

int64_t whole(const std::string& digits) { return std::stoll(digits); }
std::string as_written(const std::string& digits) { return digits; }

/// "a=2,b=2", each number through `read`.
template <class T>
void read_numbers(const std::string& text, std::map<std::string, T>& into, T (*read)(const std::string&)) {
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(',', begin);
    if (end == std::string::npos) end = text.size();
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    into[part.substr(0, equals)] = read(part.substr(equals + 1));
    begin = end + 1;
  }
}

std::string print_layout(const mesh::Graph& graph, const mesh::Layout& layout) {
  static const char* const scopes[] = {"", "params ", "grads ", "optimizer ", "activations ", "state "};
  std::string text = fmt::format("layout {} on {}\n", layout.name, layout.mesh.name);
  for (const mesh::MeshAxis& axis : layout.mesh.axes)
    text += fmt::format("  axis {}: {} ranks, stride {}\n", axis.name, axis.size, axis.stride);
  for (const mesh::Rule& rule : layout.rules) {
    const auto names = [&](const std::vector<mesh::DimId>& dims, const char* between) {
      std::string all;
      for (mesh::DimId dim : dims) all += (all.empty() ? "" : between) + graph.dim(dim).name;
      return all;
    };
    std::string axes;
    for (mesh::AxisId axis : rule.axes) axes += (axes.empty() ? "" : " * ") + layout.mesh.axes[axis].name;
    text += fmt::format("  {}{}{}{} -> {}{}\n", rule.in ? "in " + rule.in->text() + " " : "",
                        rule.pin ? "tensor " + rule.pin->text() + " " : "", scopes[static_cast<int>(rule.scope)],
                        names(rule.dims, " * "), axes.empty() ? "none" : axes,
                        rule.unless.empty() ? "" : " unless " + names(rule.unless, ", "));
  }
  for (mesh::AxisId axis : layout.replicated) text += fmt::format("  replicate over {}\n", layout.mesh.axes[axis].name);
  if (layout.closed) text += "  closed\n";
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  mesh::ElaborateOptions options;
  mesh::LayoutOptions layout_options;
  bool show_graph = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--f64") options.f64 = true;
    else if (word == "--quiet") show_graph = false;
    else if (word == "--layout") layout_options.layout = argv[++i];
    else if (word == "--mesh") read_numbers(argv[++i], layout_options.mesh, whole);
    else if (word == "--ranks") layout_options.ranks = std::stoll(argv[++i]);
    else if (word == "--model") options.model = argv[++i];
    else if (word == "--set") read_numbers(argv[++i], options.set, as_written);
    else if (word == "--want") options.want_values.emplace_back(argv[++i]);
    else files.push_back(word);
  }
  layout_options.set = options.set;
  mesh::SourceMap sources;
  mesh::DiagnosticSink sink;
  const mesh::SourceProgram program = mesh::load_program(files, sources, sink);
  options.axes = [&](const mesh::Graph& dims) { return mesh::axes_of_layout(program, dims, layout_options); };
  std::optional<mesh::Graph> graph;
  if (!program.files.empty() && !sink.has_errors()) graph = mesh::elaborate(program, sources, options, sink);
  if (graph) mesh::verify_graph(*graph, "elaborate");
  std::optional<mesh::Layout> layout;
  if (graph) layout = mesh::resolve_layout(program, *graph, layout_options, sources, sink);
  std::cout << mesh::render_all(sink, sources, {});
  if (graph && show_graph) std::cout << mesh::print_graph(*graph);
  if (layout && !layout->name.empty()) std::cout << print_layout(*graph, *layout);
  return sink.has_errors() ? 1 : 0;
}
