// placement.h: which host each rank of a job runs on. Ranks of one host share memory.
#pragma once
#include <string>
#include <vector>

namespace meshrt {

struct Placement {
  std::vector<int> host_of_rank;   ///< index in `hosts`
  std::vector<std::string> hosts;  ///< names, for people
  std::string interface;           ///< network interface of this host that reaches the others; empty: UCX chooses
  std::string address = {};        ///< of this host on that interface, as a number; may be empty

  int ranks() const { return static_cast<int>(host_of_rank.size()); }
  bool one_host() const { return hosts.size() == 1; }
  const std::string& host_name(int rank) const { return hosts[host_of_rank[rank]]; }
  /// The ranks of one host, ascending.
  std::vector<int> ranks_of(int host) const {
    std::vector<int> found;
    for (int rank = 0; rank < ranks(); ++rank)
      if (host_of_rank[rank] == host) found.push_back(rank);
    return found;
  }
  /// The ranks of the host on which `rank` runs, itself included.
  std::vector<int> neighbours(int rank) const { return ranks_of(host_of_rank[rank]); }

  /// All on one host.
  static Placement together(int ranks, const std::string& host) { return {std::vector<int>(ranks, 0), {host}, ""}; }
};

}  // namespace meshrt
