#include "codegen/model_of_replica.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh {
namespace {

/// Why it is another model; "" if it is none.
std::string difference(const Graph& whole, const Graph& own) {
  for (uint32_t i = 0; i < whole.dims.size(); ++i) {
    const Dim &dim = whole.dims[i], &now = own.dims[i];
    if (DimId{i} != whole.sample_dim && dim.size != now.size)
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
  const std::string why = own ? difference(whole, *own) : first_error(heard);
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
