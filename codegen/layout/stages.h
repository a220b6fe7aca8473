// stages.h: which stage of a pipeline computes what of a micro-batch: turns of its loops those that own them, what
// stands in front of a loop the stage where the loop begins, what stands behind all of them the last one. What several
// need, and depends on no stage, each computes for itself.
#pragma once
#include <compare>
#include <map>
#include <optional>

#include "codegen/graph/graph.h"
#include "codegen/layout/placement.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Who makes a value of a micro-batch.
struct StagePlace {
  enum class Kind : uint8_t {
    each,    // every stage, what it has of it
    gap,     // the stage of one gap
    several  // terms of one sum that are made at different gaps
  };
  Kind kind = Kind::each;
  size_t gap = 0;  // in front of the pipeline's loop of this number; one more: behind the last loop
  static StagePlace at(size_t gap) { return {Kind::gap, gap}; }
  auto operator<=>(const StagePlace&) const = default;
};

class Stages {
 public:
  /// Of a graph by micro-batches; of one without the pipeline's loops there are none.
  Stages(const Graph&, const Layout&);

  explicit operator bool() const { return bool(body_); }
  /// Whether this is the loop over micro-batches that goes through the stages.
  bool is_pipeline(const LoopOp& loop) const { return body_ && loop.body == body_; }
  /// Whether this is a loop whose turns the stages have among them.
  bool is_divided(const LoopOp& loop) const { return divided_.contains(loop.body); }
  /// Whether a divided loop's carry is a sum over all stages, of which each has its part: else it goes from stage to
  /// stage, as a gradient of samples does though every turn only adds to it.
  bool adds_up(const LoopOp&, const LoopOp::Carry&) const;
  /// The stages that a divided loop's carries go through, lowest first.
  StageRange range(const LoopOp&) const;
  /// These, where they are not all.
  std::vector<Where> comers(const LoopOp&) const;
  /// The coordinates that have any turn of a divided loop, where these are not all.
  std::vector<Where> with_turns(const LoopOp&) const;
  /// The coordinate at which a divided loop's carries begin, or end.
  Where end(const LoopOp&, bool last) const;
  /// The coordinate that has what stands in front of a loop, or behind the last one.
  Where at_gap(size_t gap) const { return at_stage(stage_of_gap(gap)); }
  /// How the turns of a divided loop are split.
  DimPlacement split_of(const LoopOp&) const;
  /// Where each turn of a divided loop is computed.
  std::vector<Where> owners(const LoopOp&) const;
  /// Where a coordinate has several stages, the one that alone makes the value; nothing for what is of each, or of the
  /// turns of a divided loop.
  std::optional<int32_t> stage_of(ValueId) const;
  /// Where a node of any body must be computed; empty: wherever it likes.
  std::vector<Where> must_lie(NodeId) const;
  /// The coordinates that compute it in some turn; empty: all may.
  std::vector<Where> ever_at(NodeId) const;
  StagePlace place(NodeId) const;
  /// Of the node that makes the value; of what a divided loop leaves, the gap behind it.
  StagePlace place_of(ValueId) const;
  /// The divided loop whose turns the stages have among them of a value of the body or around it, under whichever
  /// name, or of what they have terms of.
  std::optional<DimId> turns_of(ValueId) const;

  BodyId body() const { return body_; }
  /// Where the pipeline's loop over micro-batches stands: the root, or the turn of a replica.
  BodyId around() const { return graph_->node(graph_->body(body_).owner).body; }
  /// Of F.
  bool is_forward(const LoopOp& loop) const { return is(loop, Part::forward); }
  /// Of R, whose stages begin with what came into them in F.
  bool is_again(const LoopOp& loop) const { return is(loop, Part::recompute); }
  bool recomputes() const;

 private:
  bool is_read_before_the_end(const LoopOp&, const LoopOp::Carry&) const;
  /// A loop of the pipeline in one of its passes.
  struct Divided {
    size_t loop;
    Part part;  // forward, recompute, weight_gradient, or input_gradient for all else
    auto operator<=>(const Divided&) const = default;
  };
  void find_loops();
  bool is(const LoopOp&, Part) const;
  size_t number_of(const LoopOp& loop) const { return divided_.at(loop.body).loop; }
  bool stands(size_t loop) const;
  int32_t stage_of_gap(size_t gap) const;
  Where at_stage(int32_t stage) const;
  bool is_dealt(ValueId) const;
  void place_body();
  std::optional<StagePlace> joined(const Node&) const;
  void place_free();

  const Graph* graph_;
  Pipeline pipeline_;
  std::vector<PipelineLoop> layers_;
  std::vector<int> home_;  // by stage: its coordinate
  BodyId body_;
  std::map<BodyId, Divided> divided_;
  std::map<NodeId, StagePlace> places_;
};

/// Whether stages hand on what a divided loop's carry comes to, which lies so: each adds up its own terms of a sum.
inline bool is_handed_on(const Placement& result) { return !result.at.empty() && !result.is_partial(); }

/// Where the layout's schedule has R, what F would leave to the gradients is computed by R
/// (gradient/recompute_forward.h). Returns what F hands on for that.
std::vector<ValueId> recompute_stages(Graph&, const Layout&);

/// Sums over micro-batches whose terms are made at different stages are carried a stage each, and added in the end.
void separate_stage_sums(Graph&, const Layout&);

/// E0419 where a value would go from stage to stage otherwise than as a loop's carry, or a loop is no pipeline.
void check_stages(const Graph&, const Layout&, DiagnosticSink&);

}  // namespace mesh
