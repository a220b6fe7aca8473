// budget.h: what a spec allows a training step under a layout, `budget LAYOUT { peak_memory <= 8 GiB }`, and what the
// step that is planned comes to.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/layout/predict.h"
#include "codegen/layout/resolve.h"

namespace mesh {

using CollectiveCounts = std::map<CollectiveKind, int64_t>;

/// One line of a budget, with dims and axes found.
struct Limit {
  enum class What : uint8_t {
    memory,     // peak_memory <= 8 GiB
    bytes,      // bytes over model <= 1 MiB
    forbidden,  // forbid all_gather of params over model
    counts      // collectives in layer.attn over model == { all_gather: 2 }
  };
  What what;
  Span span;
  std::string text;             // as it is written, on one line
  std::optional<AxisId> over;   // collectives whose group has this axis; unset: all
  bool exactly = false;         // memory, bytes: ==
  int64_t bytes = 0;            // of memory, bytes
  CollectiveKind forbidden{};   // of forbidden
  std::optional<ValueKind> of;  // of forbidden: values of a kind, or those of a path; neither: all
  std::optional<Glob> of_path;
  Glob in;                  // of counts
  CollectiveCounts counts;  // kinds that are not named are counted too, and must be 0
};

/// A limit and what the step comes to.
struct LimitState {
  Limit limit;
  bool holds;
  int64_t at;                                // bytes; of forbidden and counts the number of collectives
  CollectiveCounts counts;                   // of counts
  std::vector<PlannedCollective> concerned;  // collectives that it speaks of, those that send most first
};

/// The limits that the spec has for this layout. Words that mean nothing are errors: E0404 (axis), E0405 (layout),
/// E0408 (pattern), E0414 (others).
std::vector<Limit> resolve_budget(const SourceProgram&, const Graph&, const Layout&, const LayoutOptions&,
                                  const SourceMap&, DiagnosticSink&);

/// Whether all of it allows the collectives of the step. What it says of memory, a step that splits more keeps where
/// the whole does, unless that is to be a certain number.
bool allows_collectives(const std::vector<Limit>&, const ShardedGraph& step);

/// `peak_memory`: bytes of the largest rank.
LimitState measure(const Limit&, const Prediction&, int64_t peak_memory);

/// The number of bytes of "16GiB", "1.5 GB"; nothing where that is none.
std::optional<int64_t> parse_bytes(const std::string& text);

}  // namespace mesh
