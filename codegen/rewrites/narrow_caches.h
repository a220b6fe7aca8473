// narrow_caches.h: what a program that writes a sequence keeps of earlier positions, as the keys and values of
// attention, in a type of 16 bits where all that is read of it is read in that type: half the memory, and no rounding
// more than there was, once where a key is made in place of each time that it is read.
#pragma once
#include <set>
#include <string>

#include "codegen/graph/graph.h"

namespace mesh {

/// Paths of the caches that such an entry reads in the type alone. Its products read narrow operands by now (narrow.h).
std::set<std::string> caches_read_narrow(const Graph&, meshrt::Type);

/// Keeps these in the type: in any entry that reads them, renews them or fills them.
void narrow_caches(Graph&, const std::set<std::string>& paths, meshrt::Type);

}  // namespace mesh
