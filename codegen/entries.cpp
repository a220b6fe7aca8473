#include "codegen/entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/gradient/differentiate.h"
#include "codegen/gradient/regions.h"
#include "codegen/gradient/sample_sums.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/draws.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/same_values.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/optimizer/loss_scale.h"
#include "codegen/optimizer/norms.h"
#include "codegen/optimizer/optimizer.h"
#include "codegen/rewrites/decompose.h"

namespace mesh {

Graph differentiated(const Graph& model, const ComputedAgain& again) {
  Graph graph = model;
  fold_counts(graph);
  merge_equal(graph);
  const ValueId loss = graph.objective ? scaled_loss(graph) : ValueId{};
  label_regions(graph);
  if (!loss) return graph;
  std::vector<StoredId> parameters;
  for (const Objective::Parameter& parameter : graph.objective->parameters)
    if (!graph.stored[parameter.stored.index].frozen) parameters.push_back(parameter.stored);
  differentiate(graph, loss, parameters, again);
  verify_graph(graph, "differentiate");
  return graph;
}

namespace {

/// A stored tensor under another name, as it was before the update: a copy. Other values as they are.
ValueId kept(Graph& graph, ValueId value) {
  const Node* from = &graph.node(graph.value(value).producer);
  while (is_view(from->op)) from = &graph.node(graph.value(from->inputs[0]).producer);
  if (!std::holds_alternative<ReadOp>(from->op)) return value;
  GraphBuilder build(graph);
  build.span = from->span;
  const std::string name = graph.value(value).name;
  const ValueId copy = build.map(MapFunction::copy, {value});
  graph.value(copy).name = name;
  return copy;
}

}  // namespace

Graph completed(const Graph& of) {
  Graph graph = of;
  for (Wanted& wanted : graph.wanted) wanted.value = kept(graph, wanted.value);
  for (Output& output : graph.outputs)
    if (!output.stored) output.value = kept(graph, output.value);
  for (Metric& metric : graph.metrics) {
    const ValueId value = kept(graph, metric.value);
    if (value != metric.value) graph.value(value).name = metric.name;
    metric.value = value;
  }
  if (graph.objective) append_optimizer(graph, gradients_of(graph));
  verify_graph(graph, "append_optimizer");
  decompose(graph);
  merge_equal(graph);
  remove_dead(graph);
  verify_graph(graph, "remove_dead");
  return graph;
}

void keep_metrics(Graph& graph) {
  graph.objective.reset();
  graph.outputs.clear();
  graph.wanted.clear();
  remove_dead(graph);
}

void keep_values(Graph& graph) {
  std::vector<Output> values;
  for (const Wanted& wanted : graph.wanted)
    values.push_back({wanted.name, wanted.value, {}, graph.node(graph.value(wanted.value).producer).span});
  graph.outputs = std::move(values);
  graph.metrics.clear();
  graph.objective.reset();
  graph.wanted.clear();
  remove_dead(graph);
}

void keep_updates(Graph& graph) {
  graph.metrics.clear();
  keep_metrics(graph);
}

namespace {

/// Where samples are taken together.
std::optional<Span> mixes_samples(const Graph& of) {
  Graph graph = of;
  decompose(graph);
  remove_dead(graph);
  const SampleSums sums(graph, names_of_samples(graph, graph.sample_dim));
  const auto adds_up = [&](ValueId value) { return sums.adds_up(value) != SampleKind::whole; };
  for (const NodeId id : graph.body(graph.root()).nodes)
    if ((sums.coupled() && sums.coupled()->node == id) || std::ranges::any_of(graph.node(id).results, adds_up))
      return graph.node(id).span;
  return sums.coupled() ? std::optional(graph.node(sums.coupled()->node).span) : std::nullopt;
}

/// Where a value is made of the place that a sample has in its batch. (Draws go by its place in the set.)
std::optional<Span> counts_samples(const Graph& of) {
  Graph graph = of;
  remove_dead(graph);
  const std::vector<DimId> names = names_of_samples(graph, graph.sample_dim);
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes) {
      const std::optional<DimId> along = positions_along(graph, graph.node(id));
      if (along && has(names, *along)) return graph.node(id).span;
    }
  return {};
}

void report_other_batch(DiagnosticSink& sink, Span at, const char* on_what, const std::string& here) {
  sink.error("E0218", at, "the value of a sample depends on {}", on_what)
      .here("{}", here)
      .help("`meshc fetch --evaluate` gives the values of one batch");
}

DimId samples_of(const Graph& graph) {
  if (graph.sample_dim) return graph.sample_dim;
  const auto first = std::ranges::find(graph.stored, StoredKind::input, &Stored::kind);
  return first == graph.stored.end() || first->type.dims.empty() ? DimId{} : first->type.dims.front();
}

}  // namespace

void keep_values_of_samples(Graph& graph) {
  keep_values(graph);
  graph.sample_dim = samples_of(graph);
  if (graph.sample_dim) draw_by_set(graph);
}

void require_samples(const Graph& graph, DiagnosticSink& sink) {
  if (!graph.sample_dim) {
    for (const Output& output : graph.outputs)
      sink.error("E0218", output.span, "`{}` is no value of each sample: model `{}` has no samples", output.name,
                 graph.model)
          .help("samples are the first dim of the first input; `meshc fetch --evaluate` gives any value");
    return;
  }
  const std::string& samples = graph.dim(graph.sample_dim).name;
  bool good = true;
  for (const Output& output : graph.outputs) {
    if (std::ranges::count(graph.type(output.value).dims, graph.sample_dim) > 0) continue;
    good = false;
    sink.error("E0218", output.span, "`{}` has no dim `{}`: it is no value of each sample", output.name, samples)
        .here("{}", to_string(graph, graph.type(output.value)))
        .help("`meshc evaluate` gives metrics over all samples, `meshc fetch --evaluate` any value of one batch");
  }
  if (!good) return;
  if (const std::optional<Span> counting = counts_samples(graph))
    return report_other_batch(sink, *counting, "its place in its batch", fmt::format("counts along `{}`", samples));
  const std::optional<Span> mixing = mixes_samples(graph);
  if (!mixing) return;
  sink.error("E0218", *mixing, "the value of a sample depends on the others of its batch")
      .here("takes all of `{}` together", samples)
      .help(
          "`meshc fetch --evaluate` gives the values of one batch; running statistics (`where(training, mean, seen)`) "
          "make them independent of it");
}

void require_same_numbers(const Graph& graph, const Graph& larger, DiagnosticSink& sink) {
  SameValues same;
  const auto numbers_of = [&](const Graph& of) { return same.number(of, names_of_samples(of, of.sample_dim)); };
  const std::vector<int> numbers = numbers_of(graph), others = numbers_of(larger);
  const std::set<int> known(others.begin(), others.end());
  const auto is_other = [&](ValueId value) { return !known.contains(numbers[value.index]); };
  if (std::ranges::none_of(graph.outputs, [&](const Output& one) { return is_other(one.value); })) return;
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes) {
      const Node& node = graph.node(id);
      if (std::holds_alternative<LoopOp>(node.op) || std::ranges::none_of(node.results, is_other)) continue;
      return report_other_batch(sink, node.span, "how many its batch has", "another value in a batch of another size");
    }
}

}  // namespace mesh
