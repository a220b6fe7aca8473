// predict.h: what a training step costs one rank on the named machine: the numbers behind `meshc plan`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/layout/predict_pipeline.h"
#include "codegen/layout/rules.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// One collective of the step as people ask for it.
struct PlannedCollective {
  CollectiveKind kind;
  std::vector<AxisId> axes;
  int64_t group;        // ranks
  std::string tensor;   // name of the value, or of the op that makes it:
  bool named;           // the former
  int64_t bytes;        // what the rank that sends most sends in one call
  int64_t count;        // calls a step
  int64_t sending;      // in which that rank sends so much: fewer where ranks take turns
  double seconds;       // one call
  const char* phase;    // forward, backward, update
  Span span;            // of the operation that needs it
  std::string scope;    // of that: "layer.norm1"; empty in the model itself
  std::string in_call;  // the same, of its second call "layer.norm1#2"
  std::string reason;
  Span rule;
  ValueKind of;      // what it moves is to the rules, and how they name that:
  ValuePaths paths;  // of a gradient its parameter's; an empty path where the spec has no name for it
  ValueId moved;     // as the movement leaves it
  uint32_t call;     // collectives with one number are made in one call
  Where senders;     // the coordinates of an axis that send something; none: all do, or by turns
  std::vector<int64_t> bytes_of_stages = {};  // what `bytes` is at each coordinate of a pipeline's axis, if not alike
};

/// What the stages of a pipeline hand on, once a micro-batch.
struct PlannedMessage {
  StageMessage what;
  int64_t count;
  int64_t volume() const { return what.bytes * count; }  // bytes of a step
};

/// Bytes of a step.
inline int64_t volume(const PlannedCollective& one) { return one.bytes * one.sending; }

struct Prediction {
  double flops = 0;                            // of the whole model, one step
  double product_flops = 0;                    // of products, by the rank that has most of each
  double compute_seconds = 0;                  // of the slowest rank
  double communication_seconds = 0;            // all of it, also what computation hides (program/exposed.h)
  double hidden_seconds = 0;                   // of that, what goes round while an op works on it
  std::vector<PlannedCollective> collectives;  // in order of execution
  std::optional<PlannedPipeline> pipeline = {};
  std::vector<PlannedMessage> messages = {};  // of that

  /// Of a step of which nothing is hidden: what ways to place it are compared by.
  double seconds() const;
};

/// Bytes of a step that the stage which hands on most does: of two stages one sends on and the other back.
int64_t bytes_handed_on(const Prediction&);
/// Bytes sent in a step: in each collective by the rank that sends most, between stages as `bytes_handed_on` says. Of
/// the stages of a pipeline that one counts which sends most of both.
int64_t bytes_sent(const Prediction&);

/// `calls`, if given: by reshard step the first one of the call that makes it, itself where it is alone. Those that are
/// made in one call cost their latency once.
Prediction predict(const ShardedGraph&, const std::vector<uint32_t>& calls = {});

}  // namespace mesh
