#include "codegen/compile/passes.h"

#include <fmt/format.h>

#include "codegen/check_limits.h"
#include "codegen/compile/spec_hash.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/layout/print_sharded.h"
#include "codegen/layout/stages.h"
#include "codegen/layout/verify_placements.h"
#include "codegen/program/fits_rank.h"
#include "codegen/program/lower.h"
#include "codegen/program/print_program.h"
#include "codegen/program/verify_program.h"
#include "frontend/print_ast.h"

namespace mesh {
namespace {

void parse(Compilation& c) {
  c.program = load_program(c.request.files, c.sources, c.sink);
  c.precision = resolve_precision(c.program, c.request.precision, c.sink);
}

void cut_into_regions(Compilation& c) { c.entry.regions = regions_of(c.entry.graph); }

void lower_entries(Compilation& c) {
  c.result.spec_hash = spec_hash(c.request, c.sources, *c.layout);
  if (!c.request.precision.empty()) c.result.precision = c.request.precision;
  const std::optional<MemoryLimit> most = memory_limit(c.request, c.machine, c.layout->mesh, c.budget);
  c.result.program = lower(c.result.entries, {.fuse = !c.request.plain,
                                              .share_memory = !c.request.plain,
                                              .memory = most ? std::optional(most->bytes) : std::nullopt});
  fits_a_rank(c.result.program, c.sink);
}

struct CompilerPass {
  Of of;
  const char* name;
  const char* meaning;
  void (*run)(Compilation&);
  std::string (*print)(const Compilation&);
  void (*verify)(const Compilation&, const char* pass);
};

std::string graph_text(const Compilation& c) { return print_graph(c.entry.graph); }
void check_graph(const Compilation& c, const char* pass) { verify_graph(c.entry.graph, pass); }
void check_regions(const Graph& graph, const Layout& layout, const std::vector<Region>& regions, const char* pass) {
  const Stages stages(graph, layout);
  const auto divided = [&](const LoopOp& loop) { return stages.is_divided(loop); };
  if (const std::vector<std::string> wrong = verify_regions(graph, regions, divided); !wrong.empty())
    internal_error(fmt::format("after {}: {}", pass, wrong.front()));
}
/// Movements, too, are of one function of a region, and read what that may.
void check_sharded(const Compilation& c, const char* pass) {
  const Graph& graph = c.entry.sharded.graph;
  verify_graph(graph, pass);
  verify_placements(c.entry.sharded, pass);
  check_regions(graph, c.entry.sharded.layout, regions_of(graph), pass);
}
void check_program(const Compilation& c, const char* pass) {
  if (const std::vector<std::string> wrong = verify_program(c.result.program); !wrong.empty())
    internal_error(fmt::format("after {}: {}", pass, wrong.front()));
}

const CompilerPass passes[] = {
    {Of::spec, "ast", "the syntax tree of the spec, as canonical source", parse,
     [](const Compilation& c) {
       return c.program.files.empty() ? std::string() : print(c.program.files[c.program.spec]);
     },
     [](const Compilation&, const char*) {}},
    {Of::model, "graph", "typed ops on global tensors with named dims: blocks inlined, sizes known", elaborate_entry,
     graph_text, check_graph},
    {Of::model, "recognised", "the same with attention as one op and dims renamed as late as possible",
     [](Compilation& c) {
       take_layout(c);
       if (!c.sink.has_errors()) recognise_ops(c);
     },
     graph_text, check_graph},
    {Of::model, "narrowed",
     "the same with parameters and operands of products and attention in fewer bits, where the precision says so",
     narrow_entry, graph_text, check_graph},
    {Of::model, "differentiated", "with gradients: loops that run backwards, stashes, I and W apart",
     differentiate_entry, graph_text, check_graph},
    {Of::model, "complete", "with clipping, optimizer and updates; composite ops written out", complete_entry,
     graph_text, check_graph},
    {Of::entry, "regions", "the same as regions: what goes into F, R, I and W of each, and out of them",
     cut_into_regions, [](const Compilation& c) { return print_regions(c.entry.graph, c.entry.regions); },
     [](const Compilation& c, const char* pass) {
       check_regions(c.entry.graph, for_groups(*c.layout, c.entry.graph), c.entry.regions, pass);
     }},
    {Of::entry, "sharded", "every value with its placement, every movement of data an op with its reason", place_entry,
     [](const Compilation& c) { return print_sharded(c.entry.sharded); }, check_sharded},
    {Of::program, "program", "what one rank executes: buffers, loop nests, calls, collectives", lower_entries,
     [](const Compilation& c) { return print_program(c.result.program); }, check_program}};

}  // namespace

bool run(Compilation& c, Of of) {
  const std::string entry = of == Of::entry ? c.entry.name : "";
  for (const CompilerPass& pass : passes) {
    if (pass.of != of && (pass.of != Of::model || of != Of::entry)) continue;
    if (pass.of != Of::model || !c.entry.begins_complete) pass.run(c);
    if (c.sink.has_errors() && of != Of::spec) return false;  // the tree of a spec with mistakes is there all the same
    pass.verify(c, pass.name);
    if (c.request.dump) c.request.dump(entry, pass.name, pass.print(c));
    if (c.request.stop_after == pass.name && (of != Of::entry || entry == c.request.stop_entry)) return false;
  }
  return true;
}

std::vector<std::pair<std::string, std::string>> pass_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const CompilerPass& pass : passes) names.emplace_back(pass.name, pass.meaning);
  return names;
}

}  // namespace mesh
