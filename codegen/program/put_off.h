// put_off.h: what may be made while something is under way is made before the steps that need it.
#pragma once
#include <set>

#include "codegen/program/accesses.h"
#include "codegen/program/list_places.h"

namespace mesh {

/// Of the steps from `first` to `end` those that need what a step before them moves, or what such a step has made.
std::set<size_t> held_up(const Program&, const ListPlaces&, const Steps&, const Step& by, const UsedMemory& moved,
                         size_t first, size_t end);

/// Of the nests, and loops that end others, which stand side by side in the list from `need` on, puts those that need
/// nothing of what a step before them moves, nor of what is made with that, before all others. Where the first of the
/// others then stands.
size_t put_off(const Program&, Steps&, ListPlaces&, const Step& by, const UsedMemory& moved, size_t need);

}  // namespace mesh
