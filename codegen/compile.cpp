#include "codegen/compile.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/check_limits.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/elaborate/elaborate.h"
#include "codegen/graph/entries.h"
#include "codegen/graph/micro_batches.h"
#include "codegen/graph/norms.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/recognise.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/sink_renames.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/graph/want.h"
#include "codegen/graph/watch.h"
#include "codegen/layout/costly_reshard.h"
#include "codegen/layout/machine.h"
#include "codegen/layout/place.h"
#include "codegen/layout/print_sharded.h"
#include "codegen/layout/resolve.h"
#include "codegen/layout/rules.h"
#include "codegen/program/fits_rank.h"
#include "codegen/program/lower.h"
#include "codegen/program/print_program.h"
#include "codegen/program/verify_program.h"
#include "frontend/imports.h"
#include "frontend/print_ast.h"

namespace mesh {
namespace {

/// FNV-1a over everything that decides what is emitted.
std::string hash_of(const CompileRequest& request, const SourceMap& sources, const Layout& layout,
                    const Machine& machine) {
  uint64_t hash = 14695981039346656037ull;
  const auto add = [&](std::string_view text) {
    for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
    hash = (hash ^ 0xff) * 1099511628211ull;
  };
  for (FileId file = 1; file <= sources.size(); ++file) add(sources.text(file));
  for (const auto& [dim, size] : request.set) add(fmt::format("{}={}", dim, size));
  add(request.model + "," + request.precision + "," + layout.name + "," + machine.hash);
  for (const MeshAxis& axis : layout.mesh.axes) add(fmt::format("{}={}", axis.name, axis.size));
  for (const std::string& entry : request.watch) add("watch " + entry);
  return fmt::format("{:016x}", hash);
}

/// Reports each pass, and says when to stop.
class Passes {
 public:
  explicit Passes(const CompileRequest& request) : request_(request) {}
  template <class Print>
  bool last(const char* pass, Print print) {
    if (request_.dump) request_.dump(pass, print());
    return request_.stop_after == pass;
  }

 private:
  const CompileRequest& request_;
};

Layout one_rank() { return {}; }

std::vector<std::string> forward_names(const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const std::string& name : wanted)
    if (!is_gradient_name(name) && !is_parameter_name(name) && name != norm_name) names.push_back(name);
  return names;
}

/// One form for what a spec may write in several.
void normalise(const Layout& layout, Graph& graph) {
  recognise(graph, [&](DimId dim) { return may_split(layout, dim); });
  sink_renames(graph);
}

/// What an evaluation computes of a batch. What it shares with the training step is reported of that already: the sink
/// drops what it was told before.
std::optional<Graph> evaluation_step(const CompileRequest& request, const SourceProgram& program, const Layout& layout,
                                     ElaborateOptions options, SourceMap& sources, DiagnosticSink& sink) {
  options.training = false;
  options.want_values.clear();
  std::optional<Graph> graph = elaborate(program, sources, options, sink);
  if (!graph) return std::nullopt;
  if (!request.plain) normalise(layout, *graph);
  if (layout.accumulate > 1) {
    // What a mean within a loop counts is not carried from batch to batch, and a sum over samples is complete too late.
    fold_counts(*graph, Counts::in_loops);
    declare_micro_batches(*graph, layout.accumulate, layout.accumulate_span);
  }
  run_by_micro_batches(*graph, sink);
  if (sink.has_errors()) return std::nullopt;
  return evaluation(*graph);
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& pass_names() {
  static const std::vector<std::pair<std::string, std::string>> names{
      {"ast", "the syntax tree of the spec, as canonical source"},
      {"graph", "typed ops on global tensors with named dims: blocks inlined, sizes known"},
      {"recognised", "the same with attention as one op and dims renamed as late as possible"},
      {"differentiated", "with gradients: loops that run backwards, stashes, I and W apart"},
      {"training", "with clipping, optimizer and updates; composite ops written out"},
      {"sharded", "every value with its placement, every movement of data an op with its reason"},
      {"evaluation", "the forward graph of a batch of evaluation, sharded"},
      {"program", "what one rank executes: buffers, loop nests, calls, collectives"}};
  return names;
}

std::optional<Compiled> compile(const CompileRequest& request, SourceMap& sources, DiagnosticSink& sink) {
  Passes passes(request);

  // text -> syntax tree
  const SourceProgram program = load_program(request.files, sources, sink);
  if (program.files.empty()) return std::nullopt;
  if (passes.last("ast", [&] { return print(program.files[program.spec]); })) return std::nullopt;

  // syntax tree -> graph and layout
  ElaborateOptions options{request.model, request.set, request.precision == "f64", forward_names(request.wanted)};
  const std::optional<Graph> model = elaborate(program, sources, options, sink);
  if (!model) return std::nullopt;
  verify_graph(*model, "elaborate");
  if (passes.last("graph", [&] { return print_graph(*model); })) return std::nullopt;
  const LayoutOptions chosen{request.layout, request.mesh, request.ranks, request.set};
  const std::optional<Layout> layout =
      request.one_rank ? one_rank() : resolve_layout(program, *model, chosen, sources, sink);
  const std::vector<Limit> budget =
      layout ? resolve_budget(program, *model, *layout, chosen, sources, sink) : std::vector<Limit>();
  const std::optional<Machine> machine =
      request.machine_file.empty() ? Machine{} : read_machine(request.machine_file, sink);
  if (!layout || !machine || sink.has_errors()) return std::nullopt;

  // graph -> stages -> backward -> updates
  Graph forward = *model;
  if (!request.plain) normalise(*layout, forward);
  if (passes.last("recognised", [&] { return print_graph(forward); })) return std::nullopt;
  if (layout->accumulate > 1) declare_micro_batches(forward, layout->accumulate, layout->accumulate_span);
  Graph backward = differentiated(forward, layout->remat);
  want_gradients(backward, request.wanted, sink);
  if (sink.has_errors()) return std::nullopt;
  if (passes.last("differentiated", [&] { return print_graph(backward); })) return std::nullopt;
  run_by_micro_batches(backward, sink);
  if (sink.has_errors()) return std::nullopt;
  want_norm(backward, request.wanted);
  append_watched(backward, request.watch);
  verify_graph(backward, "append_watched");
  const Graph training = training_step(backward);
  if (passes.last("training", [&] { return print_graph(training); })) return std::nullopt;

  // graph -> sharded graph
  const Layout rules = for_micro_batches(*layout, forward.micro_batches);
  Compiled result{*model, place(training, rules, *machine), {}, hash_of(request, sources, *layout, *machine)};
  report_costly_reshards(result.sharded, sink);
  if (sink.has_errors()) return std::nullopt;
  if (passes.last("sharded", [&] { return print_sharded(result.sharded); })) return std::nullopt;
  const std::optional<Graph> evaluating = evaluation_step(request, program, *layout, options, sources, sink);
  if (!evaluating) return std::nullopt;
  const ShardedGraph evaluated = place(*evaluating, rules, *machine);
  if (passes.last("evaluation", [&] { return print_sharded(evaluated); })) return std::nullopt;

  // sharded graph -> program
  result.program = lower(result.sharded, &evaluated, {!request.plain, !request.plain});
  if (!fits_a_rank(result.program, sink)) return std::nullopt;
  if (const std::vector<std::string> wrong = verify_program(result.program); !wrong.empty())
    internal_error("after lower: " + wrong.front());
  passes.last("program", [&] { return print_program(result.program); });
  check_limits(request, budget, result, sources, sink);
  if (sink.has_errors() && !request.past_limits) return std::nullopt;
  return result;
}

}  // namespace mesh
