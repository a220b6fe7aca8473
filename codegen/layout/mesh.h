// mesh.h: a mesh of ranks, and the layout written for it: rules from dims to axes, as the spec says them and resolved
// to ids.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "codegen/gradient/computed_again.h"
#include "codegen/graph/glob.h"
#include "codegen/graph/graph.h"
#include "codegen/optimizer/outer_step.h"
#include "codegen/schedule/schedule.h"
#include "meshrt/deal.h"

namespace mesh {

using AxisId = uint8_t;  // index into MeshShape::axes

inline bool contains(const std::vector<AxisId>& axes, AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

struct MeshAxis {
  std::string name;
  int64_t size;
  int64_t stride;  // ranks that differ by one along it lie this far apart; the last axis has stride 1
  Span span;
  bool within_node = false;  // ranks that differ along it alone must lie on one host
};

struct MeshShape {
  std::string name;
  std::vector<MeshAxis> axes;
  Span span;
  int64_t ranks() const {
    int64_t n = 1;
    for (const MeshAxis& axis : axes) n *= axis.size;
    return n;
  }
  int64_t size(const std::vector<AxisId>& of) const {
    int64_t n = 1;
    for (AxisId axis : of) n *= axes[axis].size;
    return n;
  }
  int64_t coordinate(int64_t rank, AxisId axis) const { return rank / axes[axis].stride % axes[axis].size; }
};

enum class RuleScope : uint8_t { general, params, grads, optimizer, activations, state };
/// As the spec writes it: "params"; "" for general.
const char* name_of(RuleScope);

/// `dims -> axes unless others`, one rule a dim (lists are spread out). Precedence, dim by dim: pin,
/// then `in` (deeper first), then scope, then general; a scope inside `in` ranks between the two.
struct Rule {
  std::vector<DimId> dims;   // one dim, or the dims of a merged one (`kv * group`), first slowest
  std::vector<AxisId> axes;  // major first; empty: `none`, kept whole
  std::vector<DimId> unless;
  RuleScope scope = RuleScope::general;
  std::optional<Glob> in;   // values whose path lies under it
  std::optional<Glob> pin;  // `tensor GLOB { }`
  Span span;
  size_t part = 0;                       // which of `dims` the axes are for
  std::string written = {};              // its right side in the spec, axes of one rank included: "data * model"
  meshrt::Deal deal = {};                // how elements are dealt to the ranks of its axes
  std::string because = {};              // of one that the compiler adds to those of the spec: why
  std::vector<std::string> listed = {};  // what the rule of the spec places with it, this included: {"kv", "ffn * up"}
};

/// A loop whose turns are layers of a pipeline.
struct PipelineLoop {
  DimId dim;
  int32_t turns = 0;
  meshrt::Deal deal = {};  // of them to the coordinates of the axis, as the cut and the lists say
  bool operator==(const PipelineLoop&) const = default;
};

/// The turns of loops that stand one after the other are the layers of a pipeline, as one row: consecutive ones are a
/// stage. A coordinate of the axis has one stage, or, of a single loop, several chunks.
struct Pipeline {
  std::vector<PipelineLoop> loops;  // in the order in which they stand; none: there is no pipeline
  AxisId axis = 0;
  int64_t micro_batches = 1;
  std::string schedule = "1f1b";        // a name of schedule/named_schedules.h
  Remat remat = Remat::none;            // of whole stages
  bool split_backward = false;          // each backward pass is I, then W
  PipelineSchedule lists = {};          // what it has the stages do
  std::vector<int32_t> cut = {};        // the turns of each stage, of the whole row
  bool cut_by_time = false;             // `cut: "auto"`: the cut is known once the step was placed (layout/cut.h)
  std::optional<int32_t> waiting = {};  // `buffers`: messages that may wait at a stage; else as many as come
  bool first_alone = false;             // `own`: the first stage has no turns, only what stands before them
  bool last_alone = false;              // the same of the last one and what stands behind
  /// Parameters that not all coordinates hold, and which do, in order (layout/owned_parameters.h).
  std::map<std::string, std::vector<int64_t>> owned = {};
  Span span;           // of the rule
  Span cut_span = {};  // of what is said of the cut
  explicit operator bool() const { return !loops.empty(); }
  /// The place of the loop over a dim; nothing where its turns are no layers.
  std::optional<size_t> loop_over(DimId dim) const {
    const auto found = std::ranges::find(loops, dim, &PipelineLoop::dim);
    return found == loops.end() ? std::nullopt : std::optional(static_cast<size_t>(found - loops.begin()));
  }
  /// Of the whole row.
  int32_t turns() const {
    int32_t all = 0;
    for (const PipelineLoop& loop : loops) all += loop.turns;
    return all;
  }
  /// Whether some weights' gradients have a time of their own.
  bool has_weights_apart() const { return lists.has(ActionKind::weight_gradient); }
  /// Whether stages compute again what their gradients need.
  bool recomputes() const { return lists.has(ActionKind::recompute); }
  /// Whether a coordinate of the axis has several stages.
  bool has_chunks() const { return lists.stages > static_cast<int32_t>(lists.ranks.size()); }
};

/// The coordinates of the axes are replicas of the model, which train apart, each with its part of the samples
/// (gradient/replicas.h). Every `sync` steps an outer step brings them together (optimizer/outer_step.h).
struct Replicas {
  int64_t count = 1, sync = 0;
  std::vector<AxisId> axes;
  OuterStep outer;
  Span rule;  // the one that says so, of the samples; known where that has mistakes too
  Span span;  // of `sync: 500` in it
  explicit operator bool() const { return count > 1; }
};

struct Layout {
  // Made, copied and destroyed in one file: to generate that for so deep a struct takes each file a second.
  Layout();
  Layout(const Layout&);
  Layout(Layout&&) noexcept;
  Layout& operator=(const Layout&);
  Layout& operator=(Layout&&) noexcept;
  ~Layout();

  std::string name;  // "" where the file has none: one rank, or everything replicated
  MeshShape mesh;
  std::string other_schedule;  // that the pipeline has in place of the one of its rule; "": none
  std::vector<Rule> rules;
  std::vector<AxisId> replicated;  // `replicate over`
  bool closed = false;
  Span automatic;          // of `auto`: a search completes the rules (search/find_layout.h)
  ComputedAgain remat;     // for the gradients
  int64_t accumulate = 1;  // micro-batches of a step
  Span accumulate_span;
  Pipeline pipeline;
  Replicas replicas;
  Span span;
};

}  // namespace mesh
