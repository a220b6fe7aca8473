#include "codegen/optimizer/want.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/glob.h"
#include "codegen/graph/value_names.h"
#include "codegen/optimizer/norms.h"
#include "frontend/suggest.h"

namespace mesh {

std::vector<std::string> matching_paths(const std::string& pattern, const std::vector<std::string>& paths) {
  const Glob glob = Glob::parse(pattern);
  std::vector<std::string> found;
  std::ranges::copy_if(paths, std::back_inserter(found),
                       [&](const std::string& path) { return path == pattern || glob.matches(path); });
  return found;
}

void want_gradients(Graph& graph, const std::vector<std::string>& wanted, DiagnosticSink& sink) {
  std::vector<std::string> paths;
  std::string path;
  for (const auto& [name, value] : graph.names)
    if (is_gradient_name(name, &path)) paths.push_back(path);
  for (const std::string& name : wanted) {
    if (name == norm_name && paths.empty())
      sink.error("E0209", Span{}, "there is no `{}`", name).note("it is that of all gradients, and the model has none");
    if (!is_gradient_name(name, &path)) continue;
    const std::vector<std::string> matches = matching_paths(path, paths);
    for (const std::string& match : matches) {
      const std::string found = gradient_name(match);
      if (std::ranges::find(graph.wanted, found, &Wanted::name) == graph.wanted.end())
        graph.wanted.push_back({found, graph.names.at(found)});
    }
    if (!matches.empty()) continue;
    auto report = sink.error("E0209", Span{}, "there is no gradient by `{}`", path);
    report.note("gradients are those of the loss by parameters that are trained" +
                (paths.empty() ? std::string(", and this model has none") : ": " + some_of(paths)));
    if (const auto near = did_you_mean(path, paths)) report.help("did you mean `grad({})`?", *near);
  }
}

void want_norm(Graph& graph, const std::vector<std::string>& wanted) {
  if (std::ranges::count(wanted, norm_name) == 0) return;
  GraphBuilder build(graph);
  build.part = Part::update;
  build.span = graph.objective->span;
  graph.wanted.push_back({norm_name, gradient_norm(build, gradients_of(graph))});
}

}  // namespace mesh
