// nodes.h: where the ranks of a mesh run, for people.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "control/placement.h"
#include "meshrt/program_info.h"
#include "meshrt/rank.h"

namespace meshrt {

/// A number for the machine of every rank, equal where they share one, also from containers that are hosts of their own
/// to launchers. Collective.
std::vector<uint64_t> hosts_of_ranks(Rank& rank);

/// Two ranks that differ along an axis `within node` alone and run on different hosts, told with a way out; "" when
/// there are none.
std::string split_node(const ProgramInfo& info, const Placement& placement);

/// Rank, host and coordinates on the mesh: a line a rank, or a line a host when there are very many.
std::string placement_table(const ProgramInfo& info, const Placement& placement);

/// Rank 0 prints the table on stderr when there are several hosts or MESHRT_DISPLAY_MAP is set. A Failure when an axis
/// is split that is to be `within node`.
void check_nodes(const Rank& rank, const ProgramInfo& info);

}  // namespace meshrt
