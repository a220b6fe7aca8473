// nodes.h: which host each rank runs on, for a mesh with axes that are `within node`.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshrt/program.h"

namespace meshrt {

/// A number for the host of every rank, equal where they share one. Collective.
std::vector<uint64_t> hosts_of_ranks(Rank& rank);

/// Two ranks that differ along such an axis alone and have different hosts, told in a sentence; "" when there are none.
std::string split_node(const ProgramInfo& info, std::span<const uint64_t> host_of_rank);

/// Collective. Throws Failure (Cause::environment) where a node is split.
void check_nodes(Rank& rank, const ProgramInfo& info);

}  // namespace meshrt
