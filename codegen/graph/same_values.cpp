#include "codegen/graph/same_values.h"

#include "codegen/graph/dims.h"
#include "codegen/graph/hash.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

size_t SameValues::HashOfKey::operator()(const Key& key) const {
  size_t hash = hash_of(key.op) + static_cast<size_t>(key.role);
  const auto add = [&hash](size_t more) { hash = hash_with(hash, more); };
  add(static_cast<size_t>(key.which));
  for (const int number : key.of) add(static_cast<size_t>(number));
  return hash;
}

DimId SameValues::common_dim(const std::string& name, int64_t size, int occurrence) {
  return dims_.emplace(std::tuple(name, size, occurrence), DimId{static_cast<uint32_t>(dims_.size())}).first->second;
}

StoredId SameValues::common_stored(const std::string& path) {
  return stored_.emplace(path, StoredId{static_cast<uint32_t>(stored_.size())}).first->second;
}

class SameValues::Walk {
 public:
  Walk(SameValues& same, const Graph& graph, const std::vector<DimId>& any_size)
      : same_(same), graph_(graph), numbers_(graph.values.size(), -1) {
    std::map<std::string, int> seen;  // of one name: the first of one graph is the first of another
    for (uint32_t i = 0; i < graph.dims.size(); ++i) {
      const Dim& dim = graph.dims[i];
      dims_.push_back(same.common_dim(dim.name, has(any_size, DimId{i}) ? 0 : dim.size, seen[dim.name]++));
    }
    body(graph.root(), 0);
  }
  std::vector<int> numbers() { return std::move(numbers_); }

 private:
  int& of(ValueId id) { return numbers_[id.index]; }

  void body(BodyId id, int depth) {
    for (const NodeId node : graph_.body(id).nodes) visit(graph_.node(node), depth);
  }

  DimId common(DimId dim) const { return dim ? dims_[dim.index] : dim; }

  Op common(Op op) const {
    for_each_dim(op, [&](DimId& dim) { dim = common(dim); });
    if (auto* read = std::get_if<ReadOp>(&op)) read->stored = common(read->stored);
    if (auto* update = std::get_if<UpdateOp>(&op)) update->stored = common(update->stored);
    return op;
  }

  StoredId common(StoredId id) const { return same_.common_stored(graph_.stored[id.index].path); }

  ValueType common(ValueType type) const {
    type.index_of = common(type.index_of);
    for (DimId& dim : type.dims) dim = common(dim);
    return type;
  }

  void visit(const Node& node, int depth) {
    if (std::holds_alternative<ReshardOp>(node.op)) {
      of(node.results[0]) = of(node.inputs[0]);
      return;
    }
    if (const auto* op = std::get_if<LoopOp>(&node.op)) return loop(*op, depth);
    const std::optional<double> count = counted(graph_, node);  // one graph may have folded it
    Key key{Role::result, 0, {}, count ? Op(LiteralOp{*count}) : common(node.op)};
    if (!count)
      for (const ValueId input : node.inputs) key.of.push_back(of(input));
    for (; key.which < static_cast<int>(node.results.size()); ++key.which) {
      const ValueId result = node.results[static_cast<size_t>(key.which)];
      key.type = common(graph_.type(result));
      of(result) = same_.intern(key);
    }
  }

  /// What a carry enters with has a number of its place alone: loops are told apart by what leaves them.
  void loop(const LoopOp& op, int depth) {
    for (size_t i = 0; i < op.carries.size(); ++i)
      of(op.carries[i].entering) = same_.intern({Role::carry, depth, {static_cast<int>(i), of(op.carries[i].initial)}});
    for (const LoopOp::Slice& slice : op.slices)
      of(slice.turn) = same_.intern({Role::slice, depth, {of(slice.stacked)}});
    if (op.index) of(op.index) = same_.intern({Role::turn, depth, {}, PositionOp{common(op.dim)}});
    body(op.body, depth + 1);
    Key key{Role::loop, op.reverse ? 1 : 0, {}, PositionOp{common(op.dim)}};
    for (const LoopOp::Carry& carry : op.carries) key.of.insert(key.of.end(), {of(carry.initial), of(carry.leaving)});
    const ValueId done = until(graph_, op);
    key.of.push_back(done ? of(done) : -1);
    const int whole = same_.intern(key);
    for (size_t i = 0; i < op.carries.size(); ++i)
      of(op.carries[i].result) = same_.intern({Role::leaves, static_cast<int>(i), {whole}});
    for (const LoopOp::Collect& collect : op.collects)
      of(collect.stacked) = same_.intern({Role::collected, 0, {of(collect.turn), whole}});
  }

  SameValues& same_;
  const Graph& graph_;
  std::vector<DimId> dims_;  // in common, by dim of the graph
  std::vector<int> numbers_;
};

std::vector<int> SameValues::number(const Graph& graph, const std::vector<DimId>& any_size) {
  return Walk(*this, graph, any_size).numbers();
}

}  // namespace mesh
