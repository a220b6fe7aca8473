// margins.h: what values are held with beside a rank's part of a dim: all that their readers ask for together, so that
// one halo exchange serves them.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "codegen/graph/op.h"

namespace mesh {

class Margins {
 public:
  /// Of the graph before anything is placed.
  explicit Margins(const Graph&);
  /// With which margins a node reads an operand along factor `f`, where that is split in so many parts: its own and
  /// those of the value's other readers. An op that reads beside along one dim takes them along all: it is given the
  /// value that has them.
  Margin of(const Node&, const std::vector<Factor>&, size_t f, size_t operand, int64_t parts) const;

 private:
  /// Of one reader: the same for all parts, or as its windows need.
  struct Ask {
    Margin margin;
    std::optional<WindowReach> window;
    bool operator==(const Ask& other) const { return margin == other.margin && !window && !other.window; }
  };
  std::map<std::pair<ValueId, DimId>, std::vector<Ask>> asked_;
};

}  // namespace mesh
