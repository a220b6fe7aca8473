// sort.cpp: sorting along a dim, and its gradient: calls of the runtime.
#include "meshrt/sort.h"

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"

namespace mesh {

namespace {

/// `whole` along `dim`, of which the other access holds `count` elements a line.
meshrt::Lines lines_of(const Binding& binding, const Access& whole, DimId dim, DimId part) {
  meshrt::Lines lines{1, 1, binding.program.sharded.graph.dim(part).size, 1};
  bool after = false;
  for (const LocalDim& local : dims_of(binding.program, whole)) {
    const int64_t extent = binding.extent(local);
    if (local.dim == dim) lines.size = extent, after = true;
    else (after ? lines.inner : lines.outer) *= extent;
  }
  return lines;
}

template <class T>
Action sort_of(Binding& binding, const SortStep& step) {
  return [&binding, lines = lines_of(binding, step.from, step.dim, step.to), descending = step.descending,
          from = Pointer(binding, step.from), values = Pointer(binding, step.values),
          indices = Pointer(binding, step.indices)] {
    meshrt::sort_lines(lines, descending, reinterpret_cast<const T*>(from.at(binding)),
                       reinterpret_cast<T*>(values.at(binding)), reinterpret_cast<int32_t*>(indices.at(binding)));
  };
}

template <class T>
Action place_of(Binding& binding, const PlaceStep& step) {
  return
      [&binding, lines = lines_of(binding, step.to, step.to_dim, step.from_dim),
       indices = Pointer(binding, step.indices), from = Pointer(binding, step.from), to = Pointer(binding, step.to)] {
        meshrt::place_lines(lines, reinterpret_cast<const int32_t*>(indices.at(binding)),
                            reinterpret_cast<const T*>(from.at(binding)), reinterpret_cast<T*>(to.at(binding)));
      };
}

}  // namespace

Action bind_step(Binding& binding, const SortStep& step) {
  switch (const Type type = binding.buffer(step.from).type) {
    case Type::f32: return sort_of<float>(binding, step);
    case Type::f64: return sort_of<double>(binding, step);
    case Type::i32: return sort_of<int32_t>(binding, step);
    case Type::i64: return sort_of<int64_t>(binding, step);
    case Type::u8: return sort_of<uint8_t>(binding, step);
    default: internal_error(std::string("the interpreter cannot sort ") + meshrt::name_of(type));
  }
}

Action bind_step(Binding& binding, const PlaceStep& step) {
  switch (const Type type = binding.buffer(step.from).type) {
    case Type::f32: return place_of<float>(binding, step);
    case Type::f64: return place_of<double>(binding, step);
    default: internal_error(std::string("the interpreter has no gradient of sorting ") + meshrt::name_of(type));
  }
}

}  // namespace mesh
