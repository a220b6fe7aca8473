// list_places.h: where in a list the steps stand that use each buffer's memory, while steps are put in, moved and taken
// out.
#pragma once
#include <unordered_map>
#include <vector>

#include "codegen/program/fuse.h"

namespace mesh {

class ListPlaces {
 public:
  ListPlaces(const Program&, const Steps&);
  /// In no order. A step that was changed since may use less now.
  std::vector<size_t> writers(uint32_t memory) const;
  /// Of steps that may not change places with one of these sets: in no order, one that reads and writes perhaps twice.
  std::vector<size_t> in_the_way(const StepSets&) const;

  void put_in(size_t at, const Step&);
  /// Where the step of each place stands now, or that it stands nowhere any more.
  void rearranged(const std::vector<size_t>& now);
  static constexpr size_t nowhere = ~size_t{0};
  /// A step that was not known.
  void stands(size_t at, const Step&);
  /// To a place before.
  void moved(size_t from, size_t to);

 private:
  using Numbers = std::vector<size_t>;  // of steps, in the order in which they became known
  void note(const Step&, size_t number);
  void add_places(const std::unordered_map<uint32_t, Numbers>&, uint32_t memory, std::vector<size_t>& places) const;

  const Program& program_;
  std::vector<size_t> place_;                                // by number
  std::unordered_map<uint32_t, Numbers> readers_, writers_;  // by memory
};

}  // namespace mesh
