#include "codegen/optimizer/write.h"

namespace mesh {

ValueId write(GraphBuilder& build, StoredId to, ValueId value) {
  const std::string path = build.graph.stored[to.index].path;
  const ValueType type = build.graph.stored[to.index].type;
  if (const Type computed = computed_in(type.element); computed != type.element) {
    const ValueId chance =
        build.value(RandomOp{Distribution::uniform, path + ".rounding", computed, type.dims, type.dims}, {});
    const MapFunction rounds = type.element == Type::bf16 ? MapFunction::round_bf16 : MapFunction::round_f16;
    value = build.cast(build.map(rounds, {value, chance}), type.element);
  }
  build.append(UpdateOp{to}, {value});
  return value;
}

}  // namespace mesh
