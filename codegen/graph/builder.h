// builder.h: appends nodes to a body of a graph, inferring result types. Used by elaboration, gradients and every pass
// that writes nodes. Operands are assumed to be legal (elaboration has checked and reported); a violation is an
// internal error.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// A mistake of the compiler itself, never of the user: exit code 70.
[[noreturn]] void internal_error(const std::string& what);

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph) : graph(graph) {}

  Graph& graph;
  // Where and as what the next node goes.
  BodyId body{0};
  Part part = Part::forward;
  Span span;
  std::string scope, call;
  RegionId region = {};

  /// Appends a node; result types from infer_types (graph/op.h).
  NodeId append(Op op, std::vector<ValueId> inputs);
  /// The same for ops with one result.
  ValueId value(Op op, std::vector<ValueId> inputs);

  DimId dim(std::string name, int64_t size, Span span = {}, std::string derivation = {});
  /// Of that name, or of a longer one that no dim has.
  DimId fresh_dim(std::string name, int64_t size, Span span);
  StoredId stored(StoredKind, std::string path, ValueType, meshrt::Initial,
                  StoredId parameter = {});  // with its ReadOp at the root's front
  BodyId new_body(NodeId owner);
  /// A fresh value that no node of `body` produces (a loop's carry.entering, slice.turn, index).
  ValueId argument(ValueType, BodyId, NodeId loop, std::string name = {});
  /// The same by the names of another value, perhaps of another graph.
  ValueId argument_called(const Value& as, ValueType, BodyId, NodeId loop);

  ValueId literal(double value, Type element);
  ValueId map(MapFunction, std::vector<ValueId> inputs);
  ValueId cast(ValueId, Type element, DimId index_of = {});  // nothing if it has the type already
  ValueId cast_part(ValueId, Type element);                  // of a part of a sum over ranks
  ValueId narrow(ValueId, Type element);                     // the same, named after what it is: "x_bf16"
  ValueId computed(ValueId);                                 // the same in what arithmetic on it is done in
  ValueId in_order(ValueId,
                   const std::vector<DimId>& dims);  // the same dims in this logical order; nothing if they stand so
  ValueId broadcast(ValueId, std::span<const DimId> dims);  // nothing if `dims` is empty
  ValueId reduce(Reduce, ValueId, std::span<const DimId> dims);
  ValueId dot(ValueId a, ValueId b, std::span<const DimId> dims);
  ValueId rename(ValueId, DimId from, DimId to);
  ValueId rename(ValueId, const std::vector<DimId>& from, const std::vector<DimId>& to);  // all at once
  ValueId position(DimId);
  /// Of each element that at a distance along a dim; where there is none, what the edge says.
  ValueId neighbour(ValueId, DimId, int64_t distance, const Edge&);
  // a op b, a literal being of the other's type
  ValueId add(ValueId a, ValueId b) { return map(MapFunction::add, {a, b}); }
  ValueId subtract(ValueId a, ValueId b) { return map(MapFunction::subtract, {a, b}); }
  ValueId multiply(ValueId a, ValueId b) { return map(MapFunction::multiply, {a, b}); }
  ValueId divide(ValueId a, ValueId b) { return map(MapFunction::divide, {a, b}); }
  ValueId multiply(ValueId a, double b) { return multiply(a, literal(b, graph.type(a).element)); }
  ValueId add(ValueId a, double b) { return add(a, literal(b, graph.type(a).element)); }
};

}  // namespace mesh
