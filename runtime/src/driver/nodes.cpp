#include "driver/nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "report/gather.h"
#include "system/tell.h"
#include "transport/transport.h"

namespace meshrt {

namespace {

// Equal for all containers of a host; where the kernel tells none, the host's name.
uint64_t this_host() {
  std::string name;
  if (!std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), name)) {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    name = host.data();
  }
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

constexpr int most_lines = 64;

std::string coordinates(const ProgramInfo& info, int rank) {
  std::vector<std::string> parts;
  for (const MeshAxis& axis : info.mesh)
    parts.push_back(fmt::format("{} {}", axis.name, rank / axis.stride % axis.size));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Where the ranks of one host lie: "data 0-1, model 3".
std::string extent(const ProgramInfo& info, const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (const MeshAxis& axis : info.mesh) {
    const auto at = [&](int rank) { return rank / axis.stride % axis.size; };
    const auto [least, most] = std::ranges::minmax(ranks, {}, at);
    parts.push_back(at(least) == at(most) ? fmt::format("{} {}", axis.name, at(least))
                                          : fmt::format("{} {}-{}", axis.name, at(least), at(most)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<uint64_t> hosts_of_ranks(Rank& rank) {
  const uint64_t own = this_host();
  std::vector<uint64_t> hosts(rank.ranks());
  std::vector<int64_t> begin;
  for (int i = 0; i <= rank.ranks(); ++i) begin.push_back(i);
  all_gather(rank, world(rank), {-1, "hosts"}, &own, hosts.data(), {1, begin, 1}, Type::i64);
  return hosts;
}

std::string split_node(const ProgramInfo& info, const Placement& placement) {
  for (const MeshAxis& axis : info.mesh) {
    if (!axis.within_node) continue;
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const int first = rank - rank / axis.stride % axis.size * axis.stride;
      if (placement.host_of_rank[rank] != placement.host_of_rank[first])
        return fmt::format(
            "mesh axis `{}` is `within node`, but its ranks {} and {} run on {} and {}: start {} ranks on each host, "
            "or "
            "a multiple, or leave `within node` out of the mesh",
            axis.name, first, rank, placement.host_name(first), placement.host_name(rank), axis.stride * axis.size);
    }
  }
  return "";
}

std::string placement_table(const ProgramInfo& info, const Placement& placement) {
  size_t width = 4;
  for (const std::string& host : placement.hosts) width = std::max(width, host.size());
  std::string text;
  if (placement.ranks() <= most_lines) {
    text = fmt::format("rank  {:<{}}  mesh\n", "host", width);
    for (int rank = 0; rank < placement.ranks(); ++rank)
      text += fmt::format("{:>4}  {:<{}}  {}\n", rank, placement.host_name(rank), width, coordinates(info, rank));
  } else {
    text = fmt::format("{:<{}}  ranks  mesh\n", "host", width);
    for (int host = 0; host < static_cast<int>(placement.hosts.size()); ++host) {
      const std::vector<int> ranks = placement.ranks_of(host);
      text += fmt::format("{:<{}}  {:>5}  {}\n", placement.hosts[host], width, ranks.size(), extent(info, ranks));
    }
  }
  if (!placement.one_host())
    text += fmt::format("memory within a host, UCX between {} hosts{}\n", placement.hosts.size(),
                        placement.interface.empty() ? "" : " over " + placement.interface);
  return text;
}

void check_nodes(const Rank& rank, const ProgramInfo& info) {
  const Placement& placement = rank.transport().placement();
  const char* wanted = std::getenv("MESHRT_DISPLAY_MAP");
  if (rank.rank() == 0 && (!placement.one_host() || (wanted && *wanted))) tell("{}", placement_table(info, placement));
  if (const std::string problem = split_node(info, placement); !problem.empty()) throw Failure(Cause::usage, problem);
}

}  // namespace meshrt
