#include "codegen/model_of_replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/gradient/sample_sums.h"
#include "codegen/graph/dims.h"

namespace mesh {
namespace {

/// The dims that values of the model have, choose from or are computed along.
std::set<DimId> dims_of(Graph model) {
  std::set<DimId> dims;
  for (const Value& value : model.values) {
    dims.insert(value.type.dims.begin(), value.type.dims.end());
    dims.insert(value.type.index_of);
  }
  for (Node& node : model.nodes) for_each_dim(node.op, [&](DimId& dim) { dims.insert(dim); });
  return dims;
}

/// Whether a value says where along the dim something stands: of all replicas, or of its own?
bool is_counted(const Graph& graph, DimId dim) {
  return std::ranges::any_of(graph.values, [&](const Value& value) { return value.type.index_of == dim; });
}

/// Whether the dim is none of the spec, but was made of one for an op.
bool is_made(const Graph& graph, DimId dim) {
  const auto first = std::ranges::find(graph.dims, graph.dim(dim).span, &Dim::span);
  return first - graph.dims.begin() != dim.index;
}

/// Where a dim that was made begins: the call of which it is.
Span made_at(const Graph& graph, DimId dim) {
  const auto has_it = [&](const Node& node) {
    return std::ranges::any_of(node.results, [&](ValueId id) { return has(graph.type(id).dims, dim); });
  };
  const auto node = std::ranges::find_if(graph.nodes, has_it);
  return node == graph.nodes.end() ? Span{} : node->span;
}

/// What another model a replica would have, of which dim.
struct Difference {
  std::string why;
  DimId of = {};
};

/// Nothing where it is the same model. Samples may have other names, of which a replica has its part.
std::optional<Difference> difference(const Graph& whole, const Graph& own, int64_t replicas) {
  const std::set<DimId> used = dims_of(whole);
  const std::vector<DimId> names = names_of_samples(whole, whole.sample_dim, replicas);
  for (uint32_t i = 0; i < whole.dims.size(); ++i) {
    const Dim &dim = whole.dims[i], &now = own.dims[i];
    const bool in_parts = has(names, DimId{i}) && dim.size == replicas * now.size &&
                          (DimId{i} == whole.sample_dim || !is_counted(whole, {i}));
    if (!in_parts && used.contains(DimId{i}) && dim.size != now.size)
      return Difference{fmt::format("`{}` would be {}, not {}", dim.name, now.size, dim.size), DimId{i}};
  }
  return std::nullopt;
}

std::string first_error(const DiagnosticSink& sink) {
  const std::vector<Diagnostic> said = sink.diagnostics();
  return std::ranges::find(said, Level::error, &Diagnostic::level)->message;
}

}  // namespace

std::optional<Graph> model_of_replica(const Graph& whole, const Replicas& replicas, const ElaborateWith& elaborate,
                                      DiagnosticSink& sink) {
  const Dim& batch = whole.dim(whole.sample_dim);
  const int64_t samples = batch.size / replicas.count;
  DiagnosticSink heard;  // warnings have been said of the whole batch
  std::optional<Graph> own = elaborate({{batch.name, std::to_string(samples)}}, heard);
  const auto other = own ? difference(whole, *own, replicas.count) : std::optional(Difference{first_error(heard)});
  if (other) {
    auto report = sink.error("E0426", replicas.span, "each of {} replicas trains with `{}` = {}: that is another model",
                             replicas.count, batch.name, samples);
    report.label(batch.span, "the batch of all replicas");
    if (other->of && is_made(whole, other->of)) {  // tokens of which experts take some
      report.here("experts would take theirs of {} at a time, not of {}", own->dim(other->of).size,
                  whole.dim(other->of).size);
      report.label(made_at(whole, other->of), "slots are shared out here");
      report.help(
          "let each sample share out slots of its own, `route[expert, slot, part]` with `dim part = {}`, or "
          "leave out `sync`",
          batch.name);
    } else {
      report.here("{}", other->why);
      report.help("give that a size without `{}`, or leave out `sync`", batch.name);
    }
    return std::nullopt;
  }
  own->generation.reset();
  return own;
}

}  // namespace mesh
