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

/// Why it is another model; "" if it is none. Samples may have other names, of which a replica has its part.
std::string difference(const Graph& whole, const Graph& own, int64_t replicas) {
  const std::set<DimId> used = dims_of(whole);
  const std::vector<DimId> names = names_of_samples(whole, whole.sample_dim, replicas);
  for (uint32_t i = 0; i < whole.dims.size(); ++i) {
    const Dim &dim = whole.dims[i], &now = own.dims[i];
    const bool in_parts = has(names, DimId{i}) && dim.size == replicas * now.size &&
                          (DimId{i} == whole.sample_dim || !is_counted(whole, {i}));
    if (!in_parts && used.contains(DimId{i}) && dim.size != now.size)
      return fmt::format("`{}` would be {}, not {}", dim.name, now.size, dim.size);
  }
  return "";
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
  const std::string why = own ? difference(whole, *own, replicas.count) : first_error(heard);
  if (!why.empty()) {
    sink.error("E0426", replicas.span, "each of {} replicas trains with `{}` = {}: that is another model",
               replicas.count, batch.name, samples)
        .here("{}", why)
        .label(batch.span, "the batch of all replicas")
        .help(fmt::format("give that a size without `{}`, or leave out `sync`", batch.name));
    return std::nullopt;
  }
  own->generation.reset();
  return own;
}

}  // namespace mesh
