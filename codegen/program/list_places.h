// list_places.h: where in a list the steps stand that use each buffer's memory, while steps are put in, moved and taken
// out.
#pragma once
#include <unordered_map>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

class ListPlaces {
 public:
  ListPlaces(const Program&, const Steps&);
  /// In no order. A step that was changed since may use less now.
  std::vector<size_t> users(uint32_t memory) const;

  void put_in(size_t at, const Step&);
  /// To a place before.
  void moved(size_t from, size_t to);
  void taken_out(size_t at);

 private:
  void note(const Step&, size_t number);

  static constexpr size_t nowhere = ~size_t{0};

  const Program& program_;
  std::vector<size_t> place_;                                // by step, in the order in which they became known
  std::unordered_map<uint32_t, std::vector<size_t>> users_;  // by memory
};

}  // namespace mesh
