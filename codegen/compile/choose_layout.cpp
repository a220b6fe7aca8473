#include "codegen/compile/choose_layout.h"

#include "codegen/check_limits.h"
#include "codegen/layout/resolve.h"
#include "codegen/layout/resolve_manual.h"
#include "codegen/model_of_replica.h"
#include "codegen/search/find_layout.h"

namespace mesh {
namespace {

LayoutOptions chosen_layout(const CompileRequest& request) {
  return {request.layout, request.mesh, request.ranks, request.set, request.schedule};
}

/// What `auto` stands for: the same for all entries, and for a program in f64 as for the one that it checks.
void complete_layout(Compilation& c, const LayoutOptions& chosen) {
  const CompileRequest& request = c.request;
  const auto elaborated = [&](std::map<std::string, std::string> sizes, DiagnosticSink& sink) {
    sizes.insert(request.set.begin(), request.set.end());
    return elaborate(c.program, c.sources, {request.model, sizes, false, {}, {}, axes_of(c)}, sink);
  };
  const std::optional<Graph> model = elaborated({}, c.sink);
  if (!model) return;
  std::optional<Graph> of_replica;
  if (c.layout->replicas) of_replica = model_of_replica(*model, c.layout->replicas, elaborated, c.sink);
  if (c.sink.has_errors()) return;
  const std::optional<int64_t> memory = memory_of_rank(request, c.machine, c.layout->mesh);
  auto found = find_layout({c.program, *model, of_replica ? *of_replica : *model, chosen, c.machine, memory, c.sources},
                           *c.layout, request.search_seconds, c.sink);
  if (!found) return;
  c.layout = std::move(found->layout);
  c.result.found = std::move(found->found);
}

/// One rank, without rules. Where the layout has replicas, whose numbers are not those of one model, it trains them one
/// after the other.
Layout one_rank(Compilation& c, const LayoutOptions& chosen) {
  DiagnosticSink heard;  // of the layout itself they are said
  Layout alone;
  if (const std::optional<Layout> layout = resolve_layout(c.program, c.entry.graph, chosen, c.sources, heard)) {
    alone.replicas = layout->replicas;
    alone.replicas.axes.clear();
  }
  return alone;
}

}  // namespace

void choose_layout(Compilation& c) {
  const CompileRequest& request = c.request;
  if (!request.machine_file.empty())
    if (std::optional<Machine> machine = read_machine(request.machine_file, c.sources, c.sink))
      c.machine = std::move(*machine);
  const LayoutOptions chosen = chosen_layout(request);
  c.layout =
      request.one_rank ? one_rank(c, chosen) : resolve_layout(c.program, c.entry.graph, chosen, c.sources, c.sink);
  if (c.layout && c.layout->automatic.known() && !c.sink.has_errors()) complete_layout(c, chosen);
  if (c.layout) c.layout->rules.insert(c.layout->rules.end(), c.rings.begin(), c.rings.end());
  if (c.layout && !request.generate)
    c.budget = resolve_budget(c.program, c.entry.graph, *c.layout, chosen, c.sources, c.sink);
}

std::function<std::map<std::string, int64_t>(const Graph&)> axes_of(const Compilation& c) {
  return [&c](const Graph& dims) { return axes_of_layout(c.program, dims, chosen_layout(c.request)); };
}

}  // namespace mesh
