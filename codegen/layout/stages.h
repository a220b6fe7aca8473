// stages.h: which stage of a pipeline computes what of a micro-batch: what stands before the pipelined loop the first,
// what is made of its result the last, its turns those that own them. What both ends need, and depends on neither, each
// stage computes for itself.
#pragma once
#include <map>
#include <optional>

#include "codegen/graph/graph.h"
#include "codegen/layout/placement.h"
#include "frontend/diagnostic.h"

namespace mesh {

enum class StagePlace : uint8_t {
  each,  // every stage, what it has of it
  first,
  last,
  several  // terms of one sum that are made at different stages
};

class Stages {
 public:
  /// Of a graph by micro-batches; of one without the pipeline's loop there are none.
  Stages(const Graph&, const Layout&);

  explicit operator bool() const { return bool(body_); }
  /// Whether this is the loop over micro-batches that goes through the stages.
  bool is_pipeline(const LoopOp& loop) const { return body_ && loop.body == body_; }
  /// Whether this is a loop whose turns the stages have among them.
  bool is_divided(const LoopOp& loop) const { return is_divided(loop.body); }
  /// The coordinate at which a divided loop begins, or ends.
  Where end(bool last) const;
  /// Where a coordinate has several stages, the one that alone makes the value; nothing for what is of each, or of the
  /// turns of a divided loop.
  std::optional<int32_t> stage_of(ValueId) const;
  /// Where each turn of a divided loop is computed.
  std::vector<Where> owners() const;
  /// Where a node of any body must be computed; empty: wherever it likes.
  std::vector<Where> must_lie(NodeId) const;
  StagePlace place(NodeId) const;
  /// Of the node that makes the value; of what a divided loop leaves, the stage of its last turn.
  StagePlace place_of(ValueId) const;

  BodyId body() const { return body_; }
  /// Of F.
  bool is_forward(const LoopOp& loop) const { return forward_ && loop.body == forward_; }
  /// Of R, whose stages begin with what came into them in F.
  bool is_again(const LoopOp& loop) const { return again_ && loop.body == again_; }
  bool recomputes() const { return bool(again_); }

 private:
  bool is_divided(BodyId body) const {
    return body && (body == forward_ || body == again_ || body == backward_ || body == weights_);
  }
  BodyId& divided_by(Part);
  std::optional<int32_t> stage_at(StagePlace) const;
  void place_body();
  std::optional<StagePlace> joined(const Node&) const;
  void place_free();

  const Graph* graph_;
  Pipeline pipeline_;
  std::vector<int> home_;  // by stage: its coordinate
  BodyId body_, forward_, again_, backward_, weights_;
  std::map<NodeId, StagePlace> places_;
};

/// Where the layout's schedule has R, what F would leave to the gradients is computed by R
/// (gradient/recompute_forward.h).
void recompute_stages(Graph&, const Layout&);

/// Sums over micro-batches whose terms are made at different stages are carried a stage each, and added in the end.
void separate_stage_sums(Graph&, const Layout&);

/// E0419 where a value would go from stage to stage otherwise than as the loop's carry, or the loop is no pipeline.
void check_stages(const Graph&, const Layout&, DiagnosticSink&);

}  // namespace mesh
