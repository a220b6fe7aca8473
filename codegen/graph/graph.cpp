#include "codegen/graph/graph.h"

#include <fmt/format.h>

namespace mesh {

const char* name_of(Part part) {
  switch (part) {
    case Part::forward: return "forward";
    case Part::input_gradient: return "input_gradient";
    case Part::weight_gradient: return "weight_gradient";
    case Part::update: return "update";
  }
  return "?";
}

int64_t Graph::elements(const ValueType& type) const {
  int64_t n = 1;
  for (DimId d : type.dims) n *= dim(d).size;
  return n;
}

std::string to_string(const Graph& graph, const ValueType& type) {
  std::string text =
      type.index_of ? fmt::format("index({})", graph.dim(type.index_of).name) : meshrt::name_of(type.element);
  if (type.dims.empty()) return text;
  text += "[";
  for (size_t i = 0; i < type.dims.size(); ++i) text += (i ? ", " : "") + graph.dim(type.dims[i]).name;
  return text + "]";
}

}  // namespace mesh
