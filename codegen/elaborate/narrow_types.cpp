#include "codegen/elaborate/narrow_types.h"

#include <algorithm>

#include "codegen/elaborate/terms.h"
#include "codegen/graph/op.h"

namespace mesh::elaboration {
namespace {

bool is_narrow_value(const Elaboration& e, ValueId value) { return is_narrow(e.type(value).element); }

void widen(Elaboration& e, ValueId& value) {
  if (value && is_narrow_value(e, value)) value = e.build.cast(value, Type::f32);
}

}  // namespace

void check_narrow_types(Elaboration& e) {
  for (const Node& node : e.graph.nodes) {
    if (definition(node.op).narrow != Narrow::refused) continue;
    const auto narrow = std::ranges::find_if(node.inputs, [&](ValueId value) { return is_narrow_value(e, value); });
    if (narrow != node.inputs.end())
      not_built(e, node.span, fmt::format("this op on {}", meshrt::name_of(e.type(*narrow).element)),
                "cast what it reads: `f32(...)`");
  }
  for (Output& output : e.graph.outputs)
    if (!output.stored) widen(e, output.value);
  for (Wanted& wanted : e.graph.wanted) widen(e, wanted.value);
  for (Metric& metric : e.graph.metrics) widen(e, metric.value);
  if (e.graph.objective) widen(e, e.graph.objective->loss);
}

}  // namespace mesh::elaboration
