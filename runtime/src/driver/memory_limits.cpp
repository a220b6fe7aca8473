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

std::string memory_problem(const ProgramInfo& info, std::span<const int> ranks, const MemoryLimit& limit) {
  int64_t all_bytes = 0, largest_bytes = 0;
  for (const int rank : ranks) {
    const auto bytes = static_cast<int64_t>(memory_of(info, rank).bytes());
    all_bytes += bytes;
    largest_bytes = std::max(largest_bytes, bytes);
  }
  if (all_bytes <= limit.bytes) return "";
  const bool alike = all_bytes == largest_bytes * static_cast<int64_t>(ranks.size());
  std::string kinds, largest;
  int64_t most = -1;
  for (const auto& [kind, bytes] : info.memory) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "\na rank holds: " : ", ", kind, bytes_text(bytes));
    if (bytes > most) most = bytes, largest = kind;
  }
  return fmt::format("{} of `{}` {} on this host, {}{} each, but {} {}{}\n{}",
                     ranks.size() == 1 ? "1 rank" : fmt::format("{} ranks", ranks.size()), info.name,
                     fmt::format("need{} {}", ranks.size() == 1 ? "s" : "", bytes_text(all_bytes)),
                     alike ? "" : "at most ", bytes_text(largest_bytes), limit.whose, bytes_text(limit.bytes), kinds,
                     way_out(largest));
}

void check_memory(Rank& rank, const ProgramInfo& info) {
  // Before ranks hear of each other: nobody allocates until everybody has looked, else what one takes would count as
  // used by others.
  const std::optional<MemoryLimit> limit = memory_limit();
  const std::vector<uint64_t> hosts = hosts_of_ranks(rank);
  if (!limit) return;
  std::vector<int> local;
  for (int other = 0; other < rank.ranks(); ++other)
    if (hosts[other] == hosts[rank.rank()]) local.push_back(other);
  if (const std::string problem = memory_problem(info, local, *limit); !problem.empty())
    throw Failure(Cause::memory, problem);
}

}  // namespace meshrt
