// mutate.h: one deliberate fault in a program, to try whether the checks find it.
#pragma once
#include <optional>
#include <string>

#include "codegen/program/program.h"

namespace mesh {

enum class Fault : uint8_t {
  drop,   // a collective is left out on all ranks
  skip,   // on one rank
  swap,   // one rank calls two neighbouring collectives of a group in the other order
  scale,  // a division by a whole number, or a multiplication by one over it, is left out
  shift,  // one rank reads its slice of a value one row too early or too late
  raise   // what `shift` reads is read as it is, plus 1: to see whether that number matters at all
};
/// Those that a check must find.
inline constexpr Fault all_faults[] = {Fault::drop, Fault::skip, Fault::swap, Fault::scale, Fault::shift};
const char* name_of(Fault);

/// How many faults of the kind the training step has room for. Collectives of groups of one do not count.
int64_t count_faults(const Program&, Fault);

struct Mutation {
  std::string what;             // in words
  std::optional<int64_t> rank;  // the one rank that runs the changed program; the others run it unchanged
};
/// Makes fault `number`, from 1 to count_faults, in the order of the program. `what` is empty, and nothing changed,
/// where the place does not allow it: at the edge of the memory, `raise` of a copy or a bool.
Mutation mutate(Program&, Fault, int64_t number);

}  // namespace mesh
