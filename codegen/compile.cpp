#include "codegen/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/alternatives.h"
#include "codegen/check_limits.h"
#include "codegen/elaborate/elaborate.h"
#include "codegen/elaborate/precision.h"
#include "codegen/entries.h"
#include "codegen/generation/causal.h"
#include "codegen/generation/generation_entries.h"
#include "codegen/gradient/group_turns.h"
#include "codegen/gradient/micro_batches.h"
#include "codegen/gradient/regions.h"
#include "codegen/gradient/replicas.h"
#include "codegen/gradient/weight_loops.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/value_names.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/layout/costly_reshard.h"
#include "codegen/layout/cut.h"
#include "codegen/layout/divided.h"
#include "codegen/layout/lost_work.h"
#include "codegen/layout/machine.h"
#include "codegen/layout/owned_parameters.h"
#include "codegen/layout/place.h"
#include "codegen/layout/print_sharded.h"
#include "codegen/layout/resolve.h"
#include "codegen/layout/resolve_manual.h"
#include "codegen/layout/rules.h"
#include "codegen/layout/split_moments.h"
#include "codegen/layout/stage_carries.h"
#include "codegen/layout/stage_movements.h"
#include "codegen/layout/stages.h"
#include "codegen/layout/verify_placements.h"
#include "codegen/model_of_replica.h"
#include "codegen/optimizer/loss_scale.h"
#include "codegen/optimizer/norms.h"
#include "codegen/optimizer/outer_step.h"
#include "codegen/optimizer/want.h"
#include "codegen/optimizer/watch.h"
#include "codegen/own_dims.h"
#include "codegen/program/fits_rank.h"
#include "codegen/program/lower.h"
#include "codegen/program/print_program.h"
#include "codegen/program/verify_program.h"
#include "codegen/rewrites/divisible_loops.h"
#include "codegen/rewrites/narrow.h"
#include "codegen/rewrites/narrow_caches.h"
#include "codegen/rewrites/narrow_gradients.h"
#include "codegen/rewrites/narrow_parameters.h"
#include "codegen/rewrites/read_narrow.h"
#include "codegen/rewrites/recognise.h"
#include "codegen/rewrites/sink_renames.h"
#include "codegen/search/find_layout.h"
#include "codegen/search/rings_for_memory.h"
#include "frontend/imports.h"
#include "frontend/lint_levels.h"
#include "frontend/print_ast.h"
#include "meshrt/generation.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

/// FNV-1a over everything that decides what is emitted. The machine's description is one of the sources.
std::string hash_of(const CompileRequest& request, const SourceMap& sources, const Layout& layout) {
  uint64_t hash = 14695981039346656037ull;
  const auto add = [&](std::string_view text) {
    for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
    hash = (hash ^ 0xff) * 1099511628211ull;
  };
  for (FileId file = 1; file <= sources.size(); ++file) add(sources.text(file));
  for (const auto& [dim, size] : request.set) add(fmt::format("{}={}", dim, size));
  add(request.model + "," + request.precision + "," + layout.name);
  for (const Rule* rule : added_rules(layout)) add(rule->written);
  for (const PipelineLoop& loop : layout.pipeline.loops)  // an automatic cut knows the memory
    if (loop.deal) add(meshrt::to_text(loop.deal));
  for (const MeshAxis& axis : layout.mesh.axes) add(fmt::format("{}={}", axis.name, axis.size));
  for (const std::string& entry : request.watch) add("watch " + entry);
  for (const ValuesEntry& entry : request.entries) add(fmt::format("{}: {}", entry.name, fmt::join(entry.values, ",")));
  if (request.generate) add("generate");
  return fmt::format("{:016x}", hash);
}

/// An entry to compile, and how far it has come.
struct EntryWork {
  std::string name, meaning;
  Purpose purpose;
  std::vector<std::string> values = {};  // that it must give: outputs, or of the step what fetch and verify ask for
  bool of_samples = false;               // ValuesEntry::of_samples
  Graph graph = {};
  bool begins_complete = false;  // its graph was made of the training step's: it needs no pass of the model
  int64_t after_steps = 0;       // Entry::after_steps
  StoredId begins = {};          // Entry::begins, where the name does not say it
  std::vector<Region> regions = {};
  ShardedGraph sharded = {};
  bool is_step() const { return purpose.kind == Purpose::Kind::train; }
  bool over_batches() const { return purpose.kind == Purpose::Kind::evaluate; }
};

/// What the passes read and write. Each reports what is wrong with the spec.
struct Compilation {
  const CompileRequest& request;
  SourceMap& sources;
  DiagnosticSink& sink;
  SourceProgram program = {};
  Precision precision = {};
  std::vector<Rule> rings = {};       // that the memory asks for, beside the rules of the layout
  std::optional<Layout> layout = {};  // known once the dims of the first entry are
  std::vector<Limit> budget = {};
  Machine machine = {};
  std::shared_ptr<GraphFacts> facts = {};  // of the step that a search has placed before
  MaySplit splits = [this](const std::vector<DimId>& dims, DimId dim, DimId beside) {
    return may_split(*layout, dims, dim, beside);
  };
  std::vector<GenerationEntry> generation = {};  // of a program that generates, once the first is elaborated
  std::set<std::string> narrow_caches = {};      // that the first of them reads in fewer bits alone
  EntryWork entry = {};                          // the one under way
  Compiled result = {};
};

std::vector<std::string> forward_names(const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const std::string& name : wanted)
    if (!is_gradient_name(name) && !is_parameter_name(name) && name != norm_name) names.push_back(name);
  return names;
}

// ---- the passes

void parse(Compilation& c) {
  c.program = load_program(c.request.files, c.sources, c.sink);
  c.precision = resolve_precision(c.program, c.request.precision, c.sink);
}

LayoutOptions chosen_layout(const CompileRequest& request) {
  return {request.layout, request.mesh, request.ranks, request.set};
}

/// The ranks that manual regions have of each axis. What a program of one rank is compared with has the same.
std::function<std::map<std::string, int64_t>(const Graph&)> axes_of(const Compilation& c) {
  return [&c](const Graph& dims) { return axes_of_layout(c.program, dims, chosen_layout(c.request)); };
}

/// What `auto` stands for: the same for all entries, and for a program in f64 as for the one that it checks.
void complete_layout(Compilation& c, const LayoutOptions& chosen) {
  const CompileRequest& request = c.request;
  const std::optional<Graph> step =
      elaborate(c.program, c.sources, {request.model, request.set, false, {}, {}, axes_of(c)}, c.sink);
  if (!step) return;
  const std::optional<int64_t> memory = memory_of_rank(request, c.machine, c.layout->mesh);
  auto found =
      find_layout({c.program, *step, chosen, c.machine, memory, c.sources}, *c.layout, request.search_seconds, c.sink);
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

/// Layout and machine of all entries: chosen once the dims of the first one are known, before anything is done that a
/// layout decides.
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

std::optional<Graph> elaborated(const Compilation& c, const std::vector<std::string>& values, const Purpose& purpose,
                                DiagnosticSink& sink, const std::map<std::string, std::string>& sizes = {}) {
  const CompileRequest& request = c.request;
  std::map<std::string, std::string> set = sizes;
  set.insert(request.set.begin(), request.set.end());
  return elaborate(c.program, c.sources, {request.model, set, c.precision.f64, values, purpose, axes_of(c)}, sink);
}

/// A spec that says `generate` is one that can: as it is outside of training.
void check_generation(Compilation& c) {
  DiagnosticSink heard;  // what else is wrong, the training step has said
  const std::optional<Graph> graph = elaborated(c, {}, {Purpose::Kind::generate}, heard);
  if (graph && graph->generation) prove_causal(*graph, c.sink);
}

/// The first of the entries that generate, which makes them all; E0511 where the spec does not say what it generates.
void begin_generation(Compilation& c) {
  const Graph& graph = c.entry.graph;
  if (!graph.generation) {
    c.sink.error("E0511", Span{}, fmt::format("model `{}` does not say what it generates", graph.model))
        .help("a line of the model says it: `generate token along seq from logits`");
    return;
  }
  prove_causal(graph, c.sink);
  if (!c.layout) choose_layout(c);  // its rules are of the model as it is written
  if (c.sink.has_errors()) return;
  c.generation = generation_entries(graph, c.sink);
}

void generate_entry(Compilation& c) {
  if (c.generation.empty()) begin_generation(c);
  const auto made = std::ranges::find(c.generation, c.entry.name, &GenerationEntry::name);
  if (made != c.generation.end()) c.entry.graph = made->graph;
}

void elaborate_entry(Compilation& c) {
  EntryWork& entry = c.entry;
  if (!c.generation.empty()) return generate_entry(c);
  std::optional<Graph> graph = elaborated(c, entry.values, entry.purpose, c.sink);
  if (!graph) return;
  entry.graph = std::move(*graph);
  if (entry.is_step() && entry.graph.generation) check_generation(c);
  if (entry.purpose.kind == Purpose::Kind::generate) return generate_entry(c);
  entry.graph.generation.reset();
  switch (entry.purpose.kind) {
    case Purpose::Kind::train:
    case Purpose::Kind::generate: break;
    case Purpose::Kind::evaluate: return keep_metrics(entry.graph);
    case Purpose::Kind::begin: return keep_updates(entry.graph);
    case Purpose::Kind::values: keep_values(entry.graph); break;
  }
  if (entry.of_samples) require_samples(entry.graph, c.sink);
}

/// A step is that of one replica until `complete`.
void take_one_replica(Compilation& c) {
  const auto with = [&](const std::map<std::string, std::string>& sizes, DiagnosticSink& sink) {
    return elaborated(c, c.entry.values, c.entry.purpose, sink, sizes);
  };
  std::optional<Graph> own = model_of_replica(c.entry.graph, c.layout->replicas, with, c.sink);
  if (own) c.entry.graph = std::move(*own);
}

/// One form for what a spec may write in several. What a layout may split stays apart.
void recognise_ops(Compilation& c) {
  if (!c.layout) choose_layout(c);
  if (c.layout && c.layout->replicas && c.entry.is_step() && !c.sink.has_errors()) take_one_replica(c);
  if (c.request.plain || c.sink.has_errors()) return;
  recognise(c.entry.graph, c.splits);
  sink_renames(c.entry.graph);
  prepare_divisible_loops(
      c.entry.graph,
      [&](const std::string& scope, DimId dim) { return ruled_turns(*c.layout, scope, dim).has_value(); },
      [&](DimId dim) { return c.layout->pipeline && c.layout->pipeline.loop_over(dim); });
}

/// What writes a sequence reads each weight once a position: to cast one would cost more than it saves, so it is read
/// as it is kept. What attention reads of earlier positions is kept as it is read.
void narrow_generation(Compilation& c) {
  Graph& graph = c.entry.graph;
  const Type products = c.precision.products;
  if (is_narrow(products)) {
    narrow_products(graph, products,
                    is_narrow(c.precision.params) ? NarrowedProducts::all : NarrowedProducts::of_no_parameter);
    if (c.entry.name == meshrt::generate_entry) c.narrow_caches = caches_read_narrow(graph, products);
    narrow_caches(graph, c.narrow_caches, products);
  }
  read_narrow(graph);
}

void narrow_entry(Compilation& c) {
  const auto [products, params] = std::pair(c.precision.products, c.precision.params);
  if (is_narrow(params)) narrow_parameters(c.entry.graph, params);
  if (c.entry.purpose.kind == Purpose::Kind::generate) narrow_generation(c);
  else if (is_narrow(products)) narrow_products(c.entry.graph, products);
}

/// Over batches, counts stay sums that add up, but for those within a loop of micro-batches: they are not carried.
void differentiate_entry(Compilation& c) {
  Graph& graph = c.entry.graph;
  const bool generates = c.entry.purpose.kind == Purpose::Kind::generate;
  const Replicas* replicas = c.layout->replicas && !generates ? &c.layout->replicas : nullptr;
  const bool cut = (c.layout->accumulate > 1 || c.layout->pipeline) && !generates;
  if (c.entry.is_step() && c.precision.loss_scale) declare_loss_scale(graph, *c.precision.loss_scale);
  if (c.entry.over_batches() && (cut || replicas)) fold_counts(graph, Counts::in_loops);
  if (replicas && c.entry.is_step()) declare_replicas(graph, replicas->count, replicas->span);
  else if (replicas) declare_evaluated_parts(graph, replicas->count, replicas->span);
  if (cut) declare_micro_batches(graph, c.layout->accumulate, c.layout->accumulate_span);
  graph.micro_batches.by_stages = cut && c.layout->pipeline;
  ComputedAgain again;
  if (c.entry.is_step()) again = group_turns(graph, c.layout->remat);
  if (cut) carry_through_loops(graph, for_groups(*c.layout, graph));
  if (c.entry.over_batches()) label_regions(graph);
  else graph = differentiated(graph, again);
  if (c.entry.is_step()) want_gradients(graph, c.request.wanted, c.sink);
}

void complete_entry(Compilation& c) {
  Graph& graph = c.entry.graph;
  const bool apart = c.entry.is_step() && c.layout->replicas;
  if (apart) run_by_replicas(graph, c.sink);
  else run_by_micro_batches(graph, c.sink);
  if (c.sink.has_errors()) return;
  if (c.entry.is_step() && is_narrow(c.precision.sums)) narrow_gradients(graph, c.precision.sums);
  if (c.entry.is_step()) {
    unscale_gradients(graph);
    want_norm(graph, c.request.wanted);
    append_watched(graph, c.request.watch);
    verify_graph(graph, "append_watched");
  }
  graph = completed(graph);
  if (apart) store_outer_momentum(graph, c.layout->replicas.outer);
  const Layout layout = for_groups(*c.layout, graph);
  begin_divided_sums_at_zero(graph, layout);
  separate_stage_sums(graph, layout);
  recompute_stages(graph, layout);
  for (const PipelineLoop& loop : layout.pipeline.loops)
    if (layout.pipeline.has_weights_apart()) separate_weight_gradients(graph, loop.dim);
  check_stages(graph, layout, c.sink);
}

void cut_into_regions(Compilation& c) { c.entry.regions = regions_of(c.entry.graph); }

/// Whether a budget allows the collectives of the step. What it says of memory, a split keeps where the whole does,
/// unless that is to be a certain number.
bool are_allowed(const std::vector<Limit>& budget, const ShardedGraph& step) {
  const Prediction prediction = predict(step);
  return std::ranges::all_of(budget, [&](const Limit& limit) {
    return limit.what == Limit::What::memory ? !limit.exactly : measure(limit, prediction, 0).holds;
  });
}

/// Where that takes less time and the budget has nothing against it; a search for what `auto` stands for has looked at
/// that itself.
void split_moments(Compilation& c, const std::function<ShardedGraph()>& placed) {
  const std::vector<Rule> added = rules_for_moments(c.entry.sharded);
  if (added.empty()) return;
  std::vector<Rule>& rules = c.layout->rules;
  rules.insert(rules.end(), added.begin(), added.end());
  ShardedGraph split = placed();
  if (is_worth_splitting(split, c.entry.sharded) && are_allowed(c.budget, split)) c.entry.sharded = std::move(split);
  else rules.resize(rules.size() - added.size());
}

void place_graph(Compilation& c) {
  const auto placed = [&] {
    const Graph& graph = c.entry.graph;
    Layout layout = for_groups(for_micro_batches(*c.layout, graph.micro_batches), graph);
    if (c.entry.is_step()) layout.pipeline.owned = c.layout->pipeline.owned = owned_parameters(graph, layout);
    return c.facts ? place(c.facts, layout) : place(graph, layout, c.machine);
  };
  c.entry.sharded = placed();
  check_stage_movements(c.entry.sharded, c.sink);
  if (!c.entry.is_step() || c.sink.has_errors()) return;
  if (!c.facts && !c.result.found) split_moments(c, placed);
  const std::optional<int64_t> memory = memory_of_rank(c.request, c.machine, c.layout->mesh);
  if (c.layout->pipeline.cut_by_time && cut_by_time(c.entry.sharded, memory, *c.layout, c.sink))
    c.entry.sharded = placed();
}

void place_entry(Compilation& c) {
  place_graph(c);
  if (!c.entry.is_step() || c.sink.has_errors()) return;
  report_costly_reshards(c.entry.sharded, c.sink);
  report_lost_work(c.entry.sharded, c.sink);
  report_uneven_stages(c.entry.sharded, c.sink);
}

void lower_entries(Compilation& c) {
  c.result.spec_hash = hash_of(c.request, c.sources, *c.layout);
  if (!c.request.precision.empty()) c.result.precision = c.request.precision;
  const std::optional<MemoryLimit> most = memory_limit(c.request, c.machine, c.layout->mesh, c.budget);
  c.result.program = lower(c.result.entries, {.fuse = !c.request.plain,
                                              .share_memory = !c.request.plain,
                                              .memory = most ? std::optional(most->bytes) : std::nullopt});
  fits_a_rank(c.result.program, c.sink);
}

// ---- their list

/// What a pass is of; `model` of an entry whose graph is still to become complete.
enum class Of : uint8_t { spec, model, entry, program };

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
void check_regions(const Graph& graph, const std::vector<Region>& regions, const char* pass) {
  if (const std::vector<std::string> wrong = verify_regions(graph, regions); !wrong.empty())
    internal_error(fmt::format("after {}: {}", pass, wrong.front()));
}
/// Movements, too, are of one function of a region, and read what that may.
void check_sharded(const Compilation& c, const char* pass) {
  const Graph& graph = c.entry.sharded.graph;
  verify_graph(graph, pass);
  verify_placements(c.entry.sharded, pass);
  check_regions(graph, regions_of(graph), pass);
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
    {Of::model, "recognised", "the same with attention as one op and dims renamed as late as possible", recognise_ops,
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
     [](const Compilation& c, const char* pass) { check_regions(c.entry.graph, c.entry.regions, pass); }},
    {Of::entry, "sharded", "every value with its placement, every movement of data an op with its reason", place_entry,
     [](const Compilation& c) { return print_sharded(c.entry.sharded); }, check_sharded},
    {Of::program, "program", "what one rank executes: buffers, loop nests, calls, collectives", lower_entries,
     [](const Compilation& c) { return print_program(c.result.program); }, check_program}};

/// Runs all passes of that (of an entry those of its model, too). Whether to go on: not after an error, nor after the
/// pass at which the request stops.
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

std::vector<std::pair<std::string, std::string>> pass_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const CompilerPass& pass : passes) names.emplace_back(pass.name, pass.meaning);
  return names;
}

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
