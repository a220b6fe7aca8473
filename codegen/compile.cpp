#include "codegen/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/alternatives.h"
#include "codegen/check_limits.h"
#include "codegen/compile/passes.h"
#include "codegen/graph/value_names.h"
#include "codegen/optimizer/norms.h"
#include "codegen/optimizer/outer_step.h"
#include "codegen/optimizer/want.h"
#include "codegen/own_dims.h"
#include "codegen/program/fits_rank.h"
#include "codegen/program/lower.h"
#include "codegen/search/rings_for_memory.h"
#include "frontend/lint_levels.h"
#include "meshrt/generation.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

std::vector<std::string> forward_names(const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const std::string& name : wanted)
    if (!is_gradient_name(name) && !is_parameter_name(name) && name != norm_name) names.push_back(name);
  return names;
}

bool compile_entry(Compilation& c, EntryWork entry) {
  c.entry = std::move(entry);
  if (!run(c, Of::entry)) return false;
  Entry made{c.entry.name,           c.entry.meaning,     std::move(c.entry.sharded),
             c.entry.over_batches(), c.entry.after_steps, c.entry.begins};
  const auto is_begun = [&](const Stored& stored) {
    return c.entry.purpose.kind == Purpose::Kind::begin && stored.path == c.entry.purpose.state;
  };
  const std::vector<Stored>& stored = made.sharded.graph.stored;
  for (uint32_t i = 0; i < stored.size(); ++i)
    if (is_begun(stored[i])) made.begins = StoredId{i};
  if (!c.result.entries.empty()) give_own_dims(made.sharded, c.result.entries.front().sharded.graph, c.sink);
  c.result.entries.push_back(std::move(made));
  return !c.sink.has_errors();
}

/// What replicas that train apart need beside their step, which has just been compiled.
std::vector<EntryWork> entries_of_replicas(const Compilation& c) {
  const Graph& step = c.entry.graph;
  const Replicas& replicas = c.layout->replicas;
  EntryWork outer{"outer_step",
                  fmt::format("after every {} step{}: the replicas go on from one model", replicas.sync,
                              replicas.sync == 1 ? "" : "s"),
                  {Purpose::Kind::begin}};
  outer.graph = outer_step(step, replicas.outer);
  outer.after_steps = replicas.sync;
  EntryWork begin{"begin.replicas", "each replica begins with the model", {Purpose::Kind::begin}};
  begin.graph = begin_replicas(step);
  begin.begins = first_of_replicas(step);
  outer.begins_complete = begin.begins_complete = true;
  return {outer, begin};
}

/// The entries beside the training step, of which the first values of states are known with it.
std::vector<EntryWork> other_entries(const Compilation& c) {
  using Kind = Purpose::Kind;
  std::vector<EntryWork> entries{
      {"evaluate", "a batch of evaluation; its metrics are over all batches", {Kind::evaluate}}};
  for (const Stored& stored : c.result.sharded().graph.stored)
    if (stored.computed)
      entries.push_back({"begin." + stored.path, "what `" + stored.path + "` begins as", {Kind::begin, stored.path}});
  for (const ValuesEntry& one : c.request.entries)
    entries.push_back({one.name,
                       fmt::format("{} of a batch", fmt::join(one.values, ", ")),
                       {Kind::values},
                       one.values,
                       one.of_samples});
  return entries;
}

bool compile_entries(Compilation& c) {
  if (c.request.generate) {
    const Purpose generates{Purpose::Kind::generate};
    if (!compile_entry(c, {meshrt::generate_entry, "what comes after a position", generates})) return false;
    return std::ranges::all_of(std::span(c.generation).subspan(1), [&](const GenerationEntry& entry) {
      return compile_entry(c, {entry.name, entry.meaning, generates});
    });
  }
  if (!compile_entry(c, {"train", "one optimizer step", {}, forward_names(c.request.wanted)})) return false;
  std::vector<EntryWork> others = other_entries(c);
  if (c.layout->replicas) std::ranges::move(entries_of_replicas(c), std::back_inserter(others));
  return std::ranges::all_of(others, [&](EntryWork& entry) { return compile_entry(c, std::move(entry)); });
}

bool compile_all(Compilation& c) {
  if (!run(c, Of::spec) || c.program.files.empty() || !compile_entries(c)) return false;
  run(c, Of::program);
  return !c.sink.has_errors();
}

int64_t peak_of(const Compilation& c) { return c.result.program.memory.peak(); }

/// Where a rank would hold more than it may, and less if keys and values of attention went round: whether it was
/// compiled so. A search for what `auto` stands for has looked at that itself.
bool compile_with_rings(const Compilation& c, Compilation& with_rings) {
  if (c.request.one_rank || c.request.generate || c.result.found || c.result.program.routines.empty()) return false;
  const std::optional<MemoryLimit> most = memory_limit(c.request, c.machine, c.layout->mesh, c.budget);
  if (!most || peak_of(c) <= most->bytes) return false;
  const std::string because =
      fmt::format("gathered, a rank would hold {}, and {}", meshrt::bytes_text(peak_of(c)), most->text);
  with_rings.rings = rings_for_memory(c.result.sharded(), because);
  return !with_rings.rings.empty() && compile_all(with_rings) && peak_of(with_rings) < peak_of(c);
}

/// What memory asks for is known at the end alone: whoever looks at passes sees those of the program that comes of it.
std::vector<Rule> rings_of_whole_program(const Compilation& c) {
  if (!c.layout || c.sink.has_errors() || !memory_limit(c.request, c.machine, c.layout->mesh, c.budget)) return {};
  CompileRequest request = c.request;
  request.stop_after.clear();
  request.dump = nullptr;
  DiagnosticSink heard, heard_of_rings;  // what is wrong behind the pass is not asked
  Compilation whole{request, c.sources, heard}, with_rings{request, c.sources, heard_of_rings};
  if (!compile_all(whole) || !compile_with_rings(whole, with_rings)) return {};
  return std::move(with_rings.rings);
}

}  // namespace

std::optional<Compiled> compile(const CompileRequest& request, SourceMap& sources, DiagnosticSink& sink) {
  DiagnosticSink heard = with_levels_of(sink), heard_of_rings = with_levels_of(sink);
  Compilation c{request, sources, heard}, with_rings{request, sources, heard_of_rings};
  bool complete = compile_all(c), smaller = false;
  if (!request.dump) {
    smaller = complete && compile_with_rings(c, with_rings);
  } else if (with_rings.rings = rings_of_whole_program(c); !with_rings.rings.empty()) {
    complete = compile_all(with_rings);
    smaller = true;
  }
  std::vector<Diagnostic> told = (smaller ? heard_of_rings : heard).diagnostics();
  if (!complete && !request.on_trial) price_alternatives(request, sources, sink, told);
  for (Diagnostic& one : told) sink.add(std::move(one));
  if (!complete) return std::nullopt;
  if (smaller) c.result = std::move(with_rings.result);
  check_limits(request, c.budget, c.result, sources, sink);
  if (sink.has_errors() && !request.past_limits) return std::nullopt;
  return std::move(c.result);
}

std::optional<Graph> step_graph(const Graph& model, const Layout& layout, const MaySplit& splits, SourceMap& sources,
                                DiagnosticSink& sink) {
  const CompileRequest request;
  Compilation c{request, sources, sink};
  c.layout = layout;
  c.splits = splits;
  c.entry.graph = model;
  for (const auto pass : {recognise_ops, differentiate_entry, complete_entry}) {
    pass(c);
    if (sink.has_errors()) return std::nullopt;
  }
  return std::move(c.entry.graph);
}

std::optional<Compiled> step_program(std::shared_ptr<GraphFacts> step, const Layout& layout,
                                     std::optional<int64_t> memory, SourceMap& sources, DiagnosticSink& sink) {
  CompileRequest request;
  request.memory = memory;
  Compilation c{request, sources, sink};
  c.layout = layout;
  c.machine = step->machine;
  c.entry.graph = step->graph;
  c.facts = std::move(step);
  place_graph(c);
  if (sink.has_errors()) return std::nullopt;
  c.result.entries.push_back({"train", "one optimizer step", std::move(c.entry.sharded)});
  c.result.program = lower(c.result.entries, {.memory = memory_of_rank(request, c.machine, layout.mesh)});
  fits_a_rank(c.result.program, sink);
  if (sink.has_errors()) return std::nullopt;
  return std::move(c.result);
}

}  // namespace mesh
