#include "codegen/program/first_fit.h"

#include <algorithm>

namespace mesh {

int64_t FirstFit::place(const Lifetime& life, int64_t bytes) {
  int64_t offset = 0;
  for (const Taken& taken : taken_) {
    if (taken.end <= offset || !taken.life.meets(life)) continue;
    if (offset + bytes <= taken.begin) break;
    offset = taken.end;
  }
  const auto lives_alike = [&](const Lifetime& other) {
    if (other.routine != life.routine || other.ranks != life.ranks) return false;
    return life.routine == -1 || (other.first == life.first && other.last == life.last);
  };
  const auto behind = std::ranges::upper_bound(taken_, offset, {}, &Taken::begin);
  if (behind != taken_.begin())
    if (Taken& before = *(behind - 1); before.end == offset && lives_alike(before.life)) {
      before.end += bytes;
      return offset;
    }
  taken_.insert(behind, {offset, offset + bytes, life});
  return offset;
}

}  // namespace mesh
