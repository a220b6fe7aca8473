#include "codegen/elaborate/narrow_types.h"

#include <algorithm>

#include "codegen/elaborate/terms.h"
#include "codegen/graph/op.h"

namespace mesh::elaboration {
namespace {

bool is_narrow_value(const Elaboration& e, ValueId value) { return e.type(value).element == Type::bf16; }

void widen(Elaboration& e, ValueId& value) {
  if (value && is_narrow_value(e, value)) value = e.build.cast(value, Type::f32);
}

}  // namespace

void check_narrow_types(Elaboration& e) {
  for (const Stored& stored : e.graph.stored)
    if (stored.type.element == Type::bf16)
      not_built(e, stored.span, "a parameter, state or input of bf16",
                stored.kind == StoredKind::parameter
                    ? fmt::format("keep `{}` as `f32`: `precision NAME {{ params: bf16 }}` keeps all parameters so",
                                  stored.path)
                    : fmt::format("keep `{0}` as `f32`, and cast it where it is read: `bf16({0})`", stored.path));
  for (const Node& node : e.graph.nodes) {
    if (definition(node.op).narrow != Narrow::refused) continue;
    const auto narrow = [&](ValueId value) { return is_narrow_value(e, value); };
    if (std::ranges::any_of(node.inputs, narrow))
      not_built(e, node.span, "`" + simple_name(node.op) + "` of bf16", "cast what it reads: `f32(...)`");
  }
  for (Output& output : e.graph.outputs)
    if (!output.stored) widen(e, output.value);
  for (Wanted& wanted : e.graph.wanted) widen(e, wanted.value);
  for (Metric& metric : e.graph.metrics) widen(e, metric.value);
  if (e.graph.objective) widen(e, e.graph.objective->loss);
}

}  // namespace mesh::elaboration
