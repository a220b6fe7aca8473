// one_position_maker.h: makes the graph of one position, value by value and loop by loop.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/generation/caches.h"
#include "codegen/generation/one_position.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/horizon.h"

namespace mesh {

/// An op that is not built for one position: where it stands.
struct NotBuilt {
  NodeId node;
};

/// Values are made when something needs them: of one position ("row"), or of all ("whole"). What depends on nothing
/// that is generated is whole as it was, and its rows are taken of it. A whole of what does depend is a cache.
class OnePositionMaker {
 public:
  /// `sequences`: the dim of sequences that each stand at a position of their own; unset: all at one.
  OnePositionMaker(const Graph& from, DimId sequences);
  OnePosition take();

 private:
  // ---- what a value is (one_position.cpp)
  bool depends(ValueId id) const { return horizons_[id.index].depends(); }
  /// The dim of which a row has one position; unset where it has none of the sequence.
  DimId row_dim(ValueId) const;
  bool has_positions(ValueId) const;
  /// The dim along which a position's element is known at that position, and then for good; unset where it has several,
  /// or sees further ahead, or where its op works along the dim: what that gives is computed anew of all positions.
  DimId kept_along(ValueId) const;
  bool sees_ahead(ValueId, DimId) const;

  // ---- values (one_position.cpp)
  ValueId read(StoredId);
  ValueId position();
  ValueId whole(ValueId);
  /// The op once more, of all positions of its operands.
  ValueId all_positions(ValueId);
  /// All positions up to this one: those before it as they were kept.
  ValueId cached(ValueId, DimId);
  /// Of this position; of what has no position, as it is.
  ValueId row(ValueId);
  /// An operand of a row along the dim.
  ValueId at_dim(ValueId, DimId);
  ValueId taken(ValueId table, DimId, const Node& of);
  ValueId taken_of_slice(const Node&, const SliceOp&);
  ValueId one_of_copies(const Node&, const BroadcastOp&, DimId dim);
  /// The op once more; `without` is no dim of its result any more.
  template <class Operand>
  ValueId copied(ValueId, DimId without, Operand operand);
  std::optional<ValueId> of_each_sequence(const Node&, const Op&, std::span<const ValueId> operands);
  /// A node with other operands, called as it is.
  NodeId again(NodeId producer, const Op&, const std::vector<ValueId>& operands);
  ValueId result_of(NodeId made, NodeId producer, ValueId) const;

  // ---- what other inputs give (given_values.cpp)
  void find_given();
  /// Of what depends on nothing that is generated: made of other inputs, by more than it takes to read it.
  bool is_held(ValueId) const;
  /// As the entry `generate.begin` has left it.
  ValueId held(ValueId);

  // ---- loops (one_position_loops.cpp)
  ValueId natural(ValueId id) { return depends(id) ? row(id) : whole(id); }
  void set(ValueId id, ValueId made) { (depends(id) ? rows_ : wholes_)[id] = made; }
  ValueType natural_type(ValueId) const;
  void loop(NodeId);
  /// A loop along the sequence: this position's turn. What it carries is kept.
  void one_turn(NodeId, const LoopOp&);
  /// Any other loop makes all its turns.
  void every_turn(NodeId, const LoopOp&);
  /// A value in the form of another that it turns into.
  ValueId at_dim_of(ValueId, ValueId like);

  // ---- writing
  GraphBuilder build(BodyId, Span);
  GraphBuilder build(BodyId, const Node& like);
  GraphBuilder build_like(const Node& node) { return build(bodies_.at(node.body), node); }
  std::string cache_path(ValueId of);
  /// A cache of a value of the model, whose turn has this type; with what it held before.
  std::pair<StoredId, ValueId> cache(BodyId, ValueId of, Kept, Span);

  const Graph& from_;
  const Generation& asked_;
  const DimId sequences_;
  std::vector<Horizon> horizons_;
  std::vector<bool> given_, light_;  // by value: made of other inputs; by nothing dear
  std::set<DimId> sequence_;         // dims along which something that is generated lies
  std::set<BodyId> one_turn_bodies_;
  Graph to_;
  Caches caches_{to_};
  std::vector<Kept> kept_;
  ValueId position_;
  std::map<BodyId, BodyId> bodies_;
  std::map<StoredId, ValueId> stored_;
  std::map<StoredId, StoredId> made_;
  std::map<ValueId, ValueId> rows_, wholes_;
  std::map<std::pair<ValueId, DimId>, ValueId> taken_;
  std::map<std::string, int> paths_;
};

}  // namespace mesh
