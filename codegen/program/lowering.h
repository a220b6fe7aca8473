// lowering.h: the state of lowering one routine, shared by the lower_*.cpp files. A value is either in memory (an
// Access: a buffer, perhaps a slice of a stacked one) or a formula that its readers compute anew inside their nests:
// literals, positions, steps, rates, broadcasts, casts, slices and cheap functions of these never get a buffer unless
// somebody needs one (a product, a collective, a loop, the caller).
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/graph/builder.h"
#include "codegen/layout/stages.h"
#include "codegen/layout/work.h"
#include "codegen/program/buffer_names.h"
#include "codegen/program/program.h"

namespace mesh {

class Lowering {
 public:
  /// `stored[id]` is the buffer of each of the graph's stored tensors; `first_step` is where the graph's reshard steps
  /// begin in program.sharded.steps; `order[value]` are a value's dims as they lie in memory.
  Lowering(Program&, const ShardedGraph&, std::vector<BufferId> stored, uint32_t first_step,
           std::vector<std::vector<DimId>> order);

  /// Lowers the nodes of the root for which `wanted` is true, in order, into `steps`.
  void lower_root(const std::vector<bool>& wanted, std::vector<Step>& steps);
  /// Says that a value is in memory already: its node is not lowered.
  void preset(ValueId, Access);
  /// Says that somebody reads a value after all nodes are lowered: no node may take its memory over.
  void keep(ValueId value) { ++readers_[value.index]; }
  /// Where a value of the root lies, if it has a place in memory and not a part of one.
  std::optional<Access> found(ValueId) const;
  /// A whole buffer of its own with the value, cast to `element`; for metrics and wanted values.
  BufferId own_buffer(ValueId, const std::string& name, Type element);
  /// The same with its dims in logical order.
  BufferId output_buffer(ValueId, const std::string& name);
  /// to (+)= value, for accumulators.
  void add_to(ValueId, BufferId to, Reduce);
  /// A new scalar += 1.
  BufferId count_to(const std::string& name, Span);
  /// total / count.
  BufferId average(BufferId total, BufferId count, const std::string& name, Type);
  /// A new buffer that holds a value.
  BufferId new_buffer(ValueId, BufferKind);
  /// The number that the value is everywhere, if that is known: literals, and counts (sums of literals).
  std::optional<double> constant(ValueId) const;

  // ---- for ops that lower themselves (OpKind::lower)

  const Program& program() const { return program_; }
  /// Where the value lies; a formula gets a place.
  Access in_memory(ValueId);
  /// The same with its dims in this order, copied where it lies otherwise.
  Access in_order(const Access& from, const std::vector<DimId>& order);
  /// And with margins along these dims alone: others it has for other readers.
  Access in_order(const Access& from, const std::vector<DimId>& order, const std::vector<DimId>& beside);
  /// A place for a result of the node, with its dims in the order that was chosen for it.
  Access allocate(ValueId);
  bool lies_in(const Access&, const std::vector<DimId>& order) const;
  /// A place for the same value with its dims in this order.
  Access turned(const Access& like, const std::vector<DimId>& order);
  /// The next step, of the node's lines.
  Step& emit(StepKind);

 private:
  using Names = std::map<DimId, DimId>;  // a value's dim -> the name it has in the nest at hand; absent: the same

  // lowering.cpp
  void find_readers();
  void lower_body(BodyId);
  void lower_node(NodeId);
  /// Who executes what is emitted.
  struct Place {
    std::vector<Where> at;  // none: all ranks
    std::optional<StageUnderWay> stage = {};
    bool operator==(const Place&) const = default;
  };
  bool is_of_each_stage(ValueId) const;
  Place where(ValueId) const;
  Place work_place(const Node&) const;
  Steps& steps_here();
  bool is_formula(ValueId) const;
  bool could_be_formula(ValueId) const;

  // lower_constants.cpp
  std::optional<double> number(const Node&) const;
  std::vector<DimId> counts(ValueId, double number) const;

  // lower_buffers.cpp
  std::vector<LocalDim> local_dims(ValueId) const;
  BufferKind kind_of(ValueId) const;
  BufferId new_buffer(const std::string& name, std::string path, Type, std::vector<LocalDim>, BufferKind, Span);
  BufferId view(const Access&, const std::vector<LocalDim>& dims);
  bool is_alone(ValueId) const;
  bool is_made_at(ValueId, const Place&) const;
  void copy(const Access& from, const Access& to);
  Access reordered(const Access& from, const std::vector<DimId>& order);

  // lower_names.cpp
  std::string short_name(ValueId) const;
  void call_as(ValueId, BufferId);
  std::string name_by_producer(ValueId) const;
  void find_updated();
  void find_named_readers();

  // lower_nest.cpp
  int as_held(Pass&, ValueId, const Names&);
  int scalar(Pass&, ValueId, const Names&);
  Scalar::Random random(const RandomOp&, const Node&, const Names&) const;
  int apply(Pass&, MapFunction, std::vector<int> operands, Type);
  int load(Pass&, const Access&, const Names&);
  int convert(Pass&, int scalar, Type);
  void store(ValueId, const Access& to);
  void lower_formula(ValueId);
  void lower_map(const Node&);
  void lower_reduce(const Node&);
  void reduce_rows(const Node&, const std::vector<LocalDim>& kept, const std::vector<LocalDim>& reduced, Reduce,
                   bool arg);
  void reduce_columns(const Node&, const std::vector<LocalDim>& dims, size_t outer, Reduce);
  void lower_arg_reduce(const Node&);
  void lower_updates();

  // lower_slice.cpp
  Access sliced(const Node&) const;
  Access padded(const Node&) const;
  Access shifted(const Node&) const;
  size_t position_of(const Access&, DimId) const;
  void lower_concat(const Node&);
  void lower_margins(const Node&);
  ValueId with_all_margins(ValueId) const;

  // lower_cumulative.cpp
  void lower_cumulative(const Node&);

  // lower_product.cpp
  void lower_dot(const Node&);

  // lower_call.cpp
  void lower_take(const Node&);
  void lower_scatter(const Node&);
  void lower_attention(const Node&);
  void lower_attention_gradient(const Node&);
  struct AttentionResult {
    Access* to;
    size_t index;  // of the node's results
    DimId innermost;
  };
  void attend(const Node&, AttentionStep&, const std::vector<AttentionResult>&);
  std::vector<DimId> order_of_heads(const Access&, const std::vector<DimId>& shared, DimId innermost) const;
  std::optional<AttentionStep::Ring> ring_of(const Node&, const AttentionStep&);
  void lower_reshard(const Node&);
  void lower_ring(const Node&);
  void lower_term(const Node&, AxisId);
  bool is_sum_of_its_own(ValueId) const;
  Access ordered_as(const Access& like, const Access& from);

  // lower_view.cpp
  void lower_rename(const Node&);
  void lower_split(const Node&);
  void lower_merge(const Node&);

  // lower_loop.cpp
  struct Slot {  // of what a loop collects
    ValueId turn;
    Access access;
    bool argument;  // what is collected is there before the body begins
  };
  void lower_loop(const Node&);
  Place beginning(const LoopOp&, Place of) const;
  Access enter(const LoopOp&, const LoopOp::Carry&);
  bool is_handed_on(const LoopOp&, const LoopOp::Carry&) const;
  void leave(const LoopOp&, const std::vector<Access>& carries, const std::function<bool(Part)>& of);
  void pass_on(const LoopOp&, const std::vector<Access>& carries, bool sends);
  void keep_inputs(const LoopOp&, const std::vector<Access>& carries);
  const ForStep* layers_in(const Step&) const;
  void add_forward_that_keeps(Steps& actions);
  bool gives_all_of_forward(DimId loop) const;
  void keep_layers(const Step& layers, std::span<const Step> again);
  void lower_actions(const LoopOp&, const std::vector<Access>& carries, const std::vector<Slot>& slots);
  void keep(const std::vector<Slot>&, bool before, const std::function<bool(Part)>& of);
  Part part_of(ValueId) const;
  Access stacked(const LoopOp&, ValueId);
  void aim(ValueId, const Access& slot);

  Program& program_;
  const ShardedGraph& sharded_;
  const Graph& graph_;
  const Stages stages_;
  std::vector<BufferId> stored_;
  uint32_t first_step_;
  std::vector<std::vector<DimId>> order_;

  std::vector<std::optional<Access>> memory_;  // by value
  std::vector<std::optional<Access>> target_;  // by value: where it must be written (a slot of a collect)
  std::vector<bool> needs_memory_;             // by value
  std::vector<int> readers_;                   // by value: how many nodes or callers use it
  std::vector<int> slices_;                    // by value: how many of these are slices of it
  std::vector<ValueId> serves_;                // by value: the nearest value with a name that is made of it
  std::map<ValueId, StoredId> updated_;        // what a stored tensor becomes, and what that is moved from
  const StoredNames stored_names_;
  std::optional<BufferNames> names_;    // while it is lowered
  std::map<ValueId, LoopId> turn_;      // loops' indices
  std::vector<Step>* steps_ = nullptr;  // being appended to
  std::vector<const Node*> updates_;
  std::optional<Access> done_;  // the condition that ends the loop whose body is being lowered
  struct StageInput {
    Access kept, carry;
    DimId loop;
    Place at;
  };
  std::map<ValueId, StageInput> came_in_;  // of F, for R, by what the loop's carry begins with
  const Node* node_ = nullptr;             // being lowered
  const Work work_;
  double seconds_ = 0;  // predicted, of nodes that made no step so far: whoever reads a formula computes it
  Place at_;
  LoopId stage_;  // of the pipeline under way, where its coordinates have several stages
};

/// Dims of `dims` in the order of `order`.
std::vector<LocalDim> ordered(const std::vector<LocalDim>& dims, const std::vector<DimId>& order);

}  // namespace mesh
