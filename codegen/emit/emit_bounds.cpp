#include "codegen/emit/emit_bounds.h"

#include <fmt/format.h>

namespace mesh {

namespace {

std::string elements_up_to(EmitContext& context, const LoopBound& bound) {
  const std::string last = value(context, bound.last.buffer), extent = context.names.extent(bound.along),
                    begin = context.names.begin(bound.along);
  if (begin == "0") return fmt::format("std::min<int64_t>({} + 1, {})", last, extent);
  return fmt::format("std::clamp<int64_t>({} + 1 - {}, 0, {})", last, begin, extent);
}

}  // namespace

std::map<DimId, std::string> declare_bounds(EmitContext& context, CppWriter& out, Scope& scope,
                                            std::span<const LoopBound> bounds) {
  std::map<DimId, std::string> names;
  for (const LoopBound& bound : bounds) {
    const std::string count = elements_up_to(context, bound);
    const std::string* known = scope.constant(count);
    std::string& name = names[bound.along.dim];
    if (known != nullptr) {
      name = *known;
      continue;
    }
    name = scope.fresh(identifier(context.graph().dim(bound.along.dim).name) + "_so_far", true);
    out.line(fmt::format("const int64_t {} = {};", name, count));
    scope.remember_constant(count, name, true);
  }
  return names;
}

}  // namespace mesh
