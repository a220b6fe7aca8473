// branches.h: on which ranks a step is executed. Ranks that no step of the program tells apart are one class, so that
// what must hold on every rank is asked once for each class: a program without branches has one. Where ranks take turns
// in a loop, being the one whose turn it is tells classes apart as a coordinate does.
#pragma once
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/program/accesses.h"
#include "codegen/program/program.h"

namespace mesh {

/// Whether a rank executes the branch's body, in some turn of the loops around it.
bool may_enter(const MeshShape&, const BranchStep&, int64_t rank);
/// The rank to which a message goes, or from which it comes; nothing at an end of its axis.
std::optional<int64_t> neighbour(const MeshShape&, const MessageStep&, int64_t rank);
/// "pipe 0, data 1 or 3"
std::string to_string(const Program&, const BranchStep&);
/// The turns of the loop that a place depends on; 1 where it depends on none.
int64_t turns_of(const Program&, const Where&);

/// A set of classes of ranks, by class.
using RankSet = std::vector<bool>;
RankSet intersection(const RankSet&, const RankSet&);
bool intersect(const RankSet&, const RankSet&);
bool includes(const RankSet& all, const RankSet& part);
void unite(RankSet& into, const RankSet& other);

class RankClasses {
 public:
  explicit RankClasses(const Program&);
  /// Ranks of their own, where that makes no more than `most` classes: for a check that must not rely on which ranks
  /// steps tell apart.
  static RankClasses of_single_ranks(const Program&, size_t most);
  size_t count() const { return classes_.size(); }
  RankSet all() const { return RankSet(count(), true); }
  /// Those of `in` that enter the step's body: of a branch those of which it asks, of a pipeline's loop those whose
  /// stages have some of its turns.
  RankSet entering(const Step&, const RankSet& in) const;
  /// Those that have any element of it: of a stored tensor its owners, of what lies by the turns of a pipeline's loop
  /// those whose stages have some.
  RankSet holding(BufferId) const;
  /// Those of `in`, which execute the step, that read or write by the access: of a broadcast's operand and a reduce's
  /// result one rank, of a slot in the end all that take turns.
  RankSet touching(const Step&, const Access&, Use, const RankSet& in) const;
  /// The axes by whose coordinates steps tell ranks apart, and one of the ranks of a class.
  const std::vector<AxisId>& axes() const { return axes_; }
  int64_t rank(size_t of) const { return classes_[of].rank; }
  /// Where the ranks of a class lie along an axis by which steps tell them apart.
  int coordinate(size_t of, AxisId axis) const {
    return static_cast<int>(program_.sharded.layout.mesh.coordinate(classes_[of].rank, axis));
  }

 private:
  /// By the coordinates of these axes, and by all turns.
  RankClasses(const Program&, std::set<AxisId> axes);

  struct Class {
    int64_t rank;            // one of its ranks
    std::vector<bool> turn;  // by place in `turns_`: whether it is its turn there
  };
  RankSet at(const Where&) const;
  /// Whether a dim lies so as the turns of a pipeline's loop do, whatever it is called: some stages may have none of
  /// it.
  bool lies_by_stages(const DimPlacement&) const;
  /// Those whose stages have some turns of a pipeline's loop, which lie so; all of them where it is no such loop's dim.
  RankSet with_turns(DimId, const DimPlacement&) const;

  const Program& program_;
  std::vector<AxisId> axes_;
  std::vector<Where> turns_;  // that depend on the turn of a loop
  std::vector<Class> classes_;
};

}  // namespace mesh
