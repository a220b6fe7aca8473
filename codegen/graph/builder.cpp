#include "codegen/graph/builder.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"

namespace mesh {

void internal_error(const std::string& what) { throw std::logic_error(what); }

NodeId GraphBuilder::append(Op op, std::vector<ValueId> inputs) {
  const NodeId id{static_cast<uint32_t>(graph.nodes.size())};
  graph.nodes.push_back({std::move(op), std::move(inputs), {}, body, part, span, scope, region, call});
  const std::vector<ValueType> types = definition(graph.node(id).op).infer(graph, graph.node(id));
  for (const ValueType& type : types) {
    const ValueId result{static_cast<uint32_t>(graph.values.size())};
    graph.values.push_back({type, id, body, {}});
    graph.node(id).results.push_back(result);
  }
  graph.body(body).nodes.push_back(id);
  return id;
}

ValueId GraphBuilder::value(Op op, std::vector<ValueId> inputs) {
  const NodeId id = append(std::move(op), std::move(inputs));
  if (graph.node(id).results.size() != 1) internal_error("an op with one result was expected");
  return graph.node(id).results[0];
}

DimId GraphBuilder::dim(std::string name, int64_t size, Span where, std::string derivation) {
  graph.dims.push_back({std::move(name), size, std::move(derivation), where});
  return {static_cast<uint32_t>(graph.dims.size() - 1)};
}

DimId GraphBuilder::fresh_dim(std::string name, int64_t size, Span span) {
  while (std::ranges::count(graph.dims, name, &Dim::name) > 0) name += "_";
  return dim(std::move(name), size, span);
}

StoredId GraphBuilder::stored(StoredKind kind, std::string path, ValueType type, meshrt::Initial initial,
                              StoredId parameter) {
  const StoredId id{static_cast<uint32_t>(graph.stored.size())};
  graph.stored.push_back({kind, path, type, initial, span, {}, parameter});
  const NodeId read{static_cast<uint32_t>(graph.nodes.size())};
  const ValueId result{static_cast<uint32_t>(graph.values.size())};
  graph.nodes.push_back({ReadOp{id}, {}, {result}, graph.root(), Part::forward, span, scope});
  graph.values.push_back({std::move(type), read, graph.root(), std::move(path)});
  // Reads stand at the front in the order of declaration, so that every later node may use them.
  auto& nodes = graph.body(graph.root()).nodes;
  const auto after_reads = std::find_if(nodes.begin(), nodes.end(),
                                        [&](NodeId n) { return !std::holds_alternative<ReadOp>(graph.node(n).op); });
  nodes.insert(after_reads, read);
  graph.stored.back().value = result;
  return id;
}

BodyId GraphBuilder::new_body(NodeId owner) {
  graph.bodies.push_back({{}, owner});
  return {static_cast<uint32_t>(graph.bodies.size() - 1)};
}

ValueId GraphBuilder::argument(ValueType type, BodyId in, NodeId loop, std::string name) {
  graph.values.push_back({std::move(type), loop, in, std::move(name)});
  return {static_cast<uint32_t>(graph.values.size() - 1)};
}

ValueId GraphBuilder::argument_called(const Value& as, ValueType type, BodyId in, NodeId loop) {
  Value made{std::move(type), loop, in, {}};
  made.take_names(as);
  graph.values.push_back(std::move(made));
  return {static_cast<uint32_t>(graph.values.size() - 1)};
}

ValueId GraphBuilder::literal(double number, Type element) {
  const ValueId id = value(LiteralOp{number}, {});
  graph.value(id).type.element = element;
  return id;
}

ValueId GraphBuilder::map(MapFunction function, std::vector<ValueId> inputs) {
  return value(MapOp{function}, std::move(inputs));
}

ValueId GraphBuilder::cast(ValueId of, Type element, DimId index_of) {
  if (graph.type(of).element == element && graph.type(of).index_of == index_of) return of;
  const ValueId id = map(MapFunction::cast, {of});
  graph.value(id).type.element = element;
  graph.value(id).type.index_of = index_of;
  return id;
}

ValueId GraphBuilder::cast_part(ValueId of, Type element) {
  const ValueId id = map(MapFunction::cast_part, {of});
  graph.value(id).type.element = element;
  return id;
}

ValueId GraphBuilder::narrow(ValueId of, Type element) {
  const ValueId id = cast(of, element);
  if (const std::string name = known_as(graph, of); id != of && !name.empty())
    graph.value(id).label = name + "_" + meshrt::name_of(element);
  return id;
}

ValueId GraphBuilder::computed(ValueId of) {
  const ValueType& type = graph.type(of);
  return cast(of, computed_in(type.element), type.index_of);
}

ValueId GraphBuilder::in_order(ValueId of, const std::vector<DimId>& dims) {
  if (graph.type(of).dims == dims) return of;
  const ValueType type{graph.type(of).element, graph.type(of).index_of, dims};
  const ValueId id = map(MapFunction::cast, {of});
  graph.value(id).type = type;
  return id;
}

ValueId GraphBuilder::broadcast(ValueId of, std::span<const DimId> dims) {
  if (dims.empty()) return of;
  return value(BroadcastOp{{dims.begin(), dims.end()}}, {of});
}

ValueId GraphBuilder::reduce(Reduce how, ValueId of, std::span<const DimId> dims) {
  if (dims.empty()) return of;
  return value(ReduceOp{how, {dims.begin(), dims.end()}}, {of});
}

ValueId GraphBuilder::dot(ValueId a, ValueId b, std::span<const DimId> dims) {
  return value(DotOp{{dims.begin(), dims.end()}}, {a, b});
}

ValueId GraphBuilder::rename(ValueId of, DimId from, DimId to) {
  return rename(of, std::vector{from}, std::vector{to});
}

ValueId GraphBuilder::rename(ValueId of, const std::vector<DimId>& from, const std::vector<DimId>& to) {
  RenameOp op;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i]) continue;
    op.from.push_back(from[i]);
    op.to.push_back(to[i]);
  }
  return op.from.empty() ? of : value(op, {of});
}

ValueId GraphBuilder::position(DimId dim) { return value(PositionOp{dim}, {}); }

// One further away than the dim is long is that at an equal distance, or the edge's.
ValueId GraphBuilder::neighbour(ValueId of, DimId dim, int64_t distance, const Edge& edge) {
  const int64_t size = graph.dim(dim).size;
  if (edge.kind == Edge::Kind::wrap) distance %= size;
  if (edge.kind == Edge::Kind::clamp) distance = std::clamp(distance, 1 - size, size - 1);
  if (distance == 0) return of;
  if (std::abs(distance) < size) return value(ShiftOp{dim, distance, edge}, {of});
  const ValueType type = graph.type(of);
  const ValueId beyond = literal(edge.value, type.element);
  graph.value(beyond).type.index_of = type.index_of;
  return broadcast(beyond, type.dims);
}

}  // namespace mesh
