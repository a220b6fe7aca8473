// branches.h: on which ranks a step is executed. Ranks that no branch of the program tells apart are one class, so that
// what must hold on every rank is asked once for each class: a program without branches has one.
#pragma once
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// Whether a rank executes the branch's body.
bool enters(const MeshShape&, const BranchStep&, int64_t rank);
/// "pipe 0, data 1 or 3"
std::string to_string(const MeshShape&, const BranchStep&);

/// A set of classes of ranks, by class.
using RankSet = std::vector<bool>;
bool intersect(const RankSet&, const RankSet&);
bool includes(const RankSet& all, const RankSet& part);
void unite(RankSet& into, const RankSet& other);

class RankClasses {
 public:
  explicit RankClasses(const Program&);
  size_t count() const { return representatives_.size(); }
  RankSet all() const { return RankSet(count(), true); }
  /// Those of `in` that enter the step's body: all of them where it is no branch.
  RankSet entering(const Step&, const RankSet& in) const;

 private:
  const MeshShape& mesh_;
  std::vector<int64_t> representatives_;  // by class: one of its ranks
};

}  // namespace mesh
