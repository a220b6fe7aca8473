#include "driver/memory_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "driver/nodes.h"
#include "meshrt/failure.h"
#include "meshrt/log.h"

namespace meshrt {

namespace {

/// What helps most, by what takes most.
std::string way_out(const std::string& largest) {
  if (largest == "activation" || largest == "workspace" || largest == "gradient")
    return "a smaller batch, `batch -> AXIS { accumulate: N }`, or a layout that splits more of the activations, makes "
           "it less";
  if (largest == "parameter" || largest == "optimizer")
    return "a layout that splits parameters and optimizer state (`params { DIM -> AXIS }`) over more ranks makes it "
           "less";
  return "more hosts, or a layout that splits more, make it less for each";
}

}  // namespace

std::string memory_problem(const ProgramInfo& info, int local_ranks, const MemoryLimit& limit) {
  const auto rank_bytes = static_cast<int64_t>(info.arena_bytes + info.own_bytes);
  if (rank_bytes * local_ranks <= limit.bytes) return "";
  std::string kinds, largest;
  int64_t most = -1;
  for (const auto& [kind, bytes] : info.memory) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "\na rank holds: " : ", ", kind, bytes_text(bytes));
    if (bytes > most) most = bytes, largest = kind;
  }
  return fmt::format("{} of `{}` {} on this host, {} each, but {} {}{}\n{}",
                     local_ranks == 1 ? "1 rank" : fmt::format("{} ranks", local_ranks), info.name,
                     fmt::format("need{} {}", local_ranks == 1 ? "s" : "", bytes_text(rank_bytes * local_ranks)),
                     bytes_text(rank_bytes), limit.whose, bytes_text(limit.bytes), kinds, way_out(largest));
}

void check_memory(Rank& rank, const ProgramInfo& info) {
  // Before ranks hear of each other: nobody allocates until everybody has looked, else what one takes would count as
  // used by others.
  const std::optional<MemoryLimit> limit = memory_limit();
  const std::vector<uint64_t> hosts = hosts_of_ranks(rank);
  if (!limit) return;
  const auto local = static_cast<int>(std::ranges::count(hosts, hosts[rank.rank()]));
  if (const std::string problem = memory_problem(info, local, *limit); !problem.empty())
    throw Failure(Cause::memory, problem);
}

}  // namespace meshrt
