// nest_loops.h: the loops of an emitted nest. Neighbouring dims that every access walks through together become one
// loop, and addresses are written row first: `const int64_t row = (b * seq + s) * embed;` then `x[row + e]`.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/emit/emit_context.h"
#include "codegen/program/extent.h"

namespace mesh {

/// One `for`: over a dim, or over several as one.
struct NestLoop {
  std::vector<LocalDim> dims;  // outermost first
  std::string index;           // its variable
  std::string extent;          // as far as the dims go in memory
  std::string stop = {};       // how far the loop goes, where that is not as far
  const std::string& end() const { return stop.empty() ? extent : stop; }
  std::string head() const { return "for (int64_t " + index + " = 0; " + index + " < " + end() + "; ++" + index + ")"; }
};

class NestLoops {
 public:
  /// `stops`: how far the nest goes along the dims that it bounds.
  NestLoops(EmitContext&, const Nest&, const std::map<DimId, std::string>& stops = {});

  const std::vector<NestLoop>& outer() const { return outer_; }
  const std::vector<NestLoop>& inner(size_t pass) const { return inner_[pass]; }
  /// All loops around the innermost statements of a pass.
  std::vector<const NestLoop*> around(size_t pass) const;

  /// An element as the innermost statements of a pass see it.
  struct Element {
    std::string base;      // "x", or "x[l]" of a stack
    std::string row;       // what the innermost loop does not change: "(b * seq + s) * embed"; may be empty
    size_t row_depth = 0;  // loops that the row depends on
    std::string index;     // what it does: "e"; empty where the element does not depend on the innermost loop
    size_t depth = 0;      // loops that the element depends on
  };
  Element element(const Access&, size_t pass) const;
  /// When this rank holds the element that a load asks for: "token >= 1"; empty where it always does.
  std::string condition(const Access&, size_t pass) const;
  /// How often a row is used in the whole nest.
  int uses(const std::string& row) const;
  /// The depth of the innermost loop over a dim in a pass.
  size_t depth_of(DimId, size_t pass) const;
  /// The nest's part of a dim in a pass.
  const LocalDim& local(DimId, size_t pass) const;
  /// Whether the nest writes to memory that this buffer shares.
  bool writes(BufferId) const;
  /// Whether two buffers are the same, or lie in the same place.
  bool share_bytes(BufferId, BufferId) const;

 private:
  /// An index of a buffer's dim: the loops' part of it, what is added to that, and the depth of the loop.
  struct Index {
    std::string loops, added;
    size_t depth = 0;
    std::string sum() const;
    std::string factor() const;  // the sum, fit to be multiplied
  };
  /// The index of one dim of a buffer, or of several that one loop walks, fit to be multiplied.
  struct DimIndex {
    std::string text, extent;
    Index index;  // what the text is made of; of the slot of a turn nothing
  };
  /// Outermost first: turns, then loops.
  std::vector<DimIndex> indices(const Access&, size_t pass) const;
  DimIndex walked_index(const Access&, const Address&, size_t& position, size_t pass) const;
  /// In elements of the last of these dims, or of a smaller one that goes `scale` times into it.
  static std::string sum_of(const std::vector<DimIndex>&, const std::string& scale = "");
  Index mapped_index(const Address::Mapped&, size_t pass) const;
  std::string distance_name(const Address::Mapped&, const std::string& value) const;
  std::string shift_text(const Address::Shift&) const;

  /// `last_alone`: the last dim keeps a loop of its own, as the lanes of a reduction follow its indices.
  std::vector<NestLoop> merge(const std::vector<LocalDim>& dims, size_t first_pass, size_t last_pass, size_t flat_depth,
                              bool last_alone);
  bool is_bounded(DimId) const;
  void stop(std::vector<NestLoop>& loops, const std::map<DimId, std::string>& stops) const;
  bool walked_together(const LocalDim& first, const LocalDim& second, size_t first_pass, size_t last_pass) const;

  EmitContext& context_;
  const Nest& nest_;
  std::vector<NestLoop> outer_;
  std::vector<std::vector<NestLoop>> inner_;
  std::map<std::string, int> row_uses_;
};

/// Every access of a pass: loads, stores, accumulates.
std::vector<const Access*> accesses_of(const Pass&);

}  // namespace mesh
