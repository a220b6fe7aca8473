// emit_sort.cpp: sorting along a dim, and its gradient: calls of the runtime.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_calls.h"
#include "codegen/program/extent.h"

namespace mesh {

namespace {

/// {outer, size, count, inner}
std::string lines(EmitContext& context, const Access& whole, DimId dim, DimId part) {
  const auto dims = dims_of(context.program, whole);
  const auto at = static_cast<size_t>(std::ranges::find(dims, dim, &LocalDim::dim) - dims.begin());
  return fmt::format("{{{}, {}, {}, {}}}", context.names.product(dims.first(at)), context.names.extent(dims[at]),
                     context.names.size(part), context.names.product(dims.subspan(at + 1)));
}

}  // namespace

void emit_sort(EmitContext& context, CppWriter& out, const SortStep& step) {
  const std::string type = cpp_type(context.program.buffer(step.from.buffer).type);
  out.line(fmt::format("meshrt::sort_lines<{}>({}, {}, {}, {}, {});", type,
                       lines(context, step.from, step.dim, step.to), step.descending ? "true" : "false",
                       address(context, step.from), address(context, step.values), address(context, step.indices)));
}

void emit_sort_gradient(EmitContext& context, CppWriter& out, const PlaceStep& step) {
  const std::string type = cpp_type(context.program.buffer(step.from.buffer).type);
  out.line(fmt::format("meshrt::place_lines<{}>({}, {}, {}, {});", type,
                       lines(context, step.to, step.to_dim, step.from_dim), address(context, step.indices),
                       address(context, step.from), address(context, step.to)));
}

}  // namespace mesh
