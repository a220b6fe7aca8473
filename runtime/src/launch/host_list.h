// host_list.h: the hosts of a job and how its ranks are spread over them: `--hosts`, `--hostfile`.
#pragma once
#include <string>
#include <vector>

#include "control/placement.h"

namespace meshrt {

struct HostSlots {
  std::string name;
  int slots = 0;  ///< ranks that may run there; 0: not said
  bool operator==(const HostSlots&) const = default;
};

/// "a:4,b:4,[fe80::1]:2,c". Throws Failure (Cause::usage).
std::vector<HostSlots> parse_hosts(const std::string& list);
/// The lines of a host file, as OpenMPI ("a slots=4") and MPICH ("a:4") write them; "#" begins a comment. `path` is for
/// messages. Throws Failure (Cause::usage) naming the line.
std::vector<HostSlots> parse_host_file(const std::string& text, const std::string& path);

struct RankCounts {
  int ranks = 0;     ///< of the job; 0: as many as there are slots
  int hosts = 0;     ///< how many of the list are used, from its beginning; 0: all
  int per_host = 0;  ///< in place of the list's slots; 0: those
};

/// Ranks in the order of the hosts, each filled before the next. Hosts that no slots are said of share the ranks
/// evenly; hosts that get none are left out. Throws Failure (Cause::usage) with the numbers when they do not fit.
Placement place_ranks(const std::vector<HostSlots>& hosts, const RankCounts& counts);

}  // namespace meshrt
