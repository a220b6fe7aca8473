#include "driver/nodes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "meshrt/collectives.h"
#include "meshrt/driver.h"
#include "meshrt/failure.h"

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

}  // namespace

std::vector<uint64_t> hosts_of_ranks(Rank& rank) {
  const Axis all[] = {{rank.ranks(), 1}};
  const uint64_t own = this_host();
  std::vector<uint64_t> hosts(rank.ranks());
  std::vector<int64_t> begin;
  for (int i = 0; i <= rank.ranks(); ++i) begin.push_back(i);
  all_gather(rank, rank.group(all), {-1, "hosts"}, &own, hosts.data(), {1, begin, 1}, Type::i64);
  return hosts;
}

std::string split_node(const ProgramInfo& info, std::span<const uint64_t> host_of_rank) {
  for (const MeshAxis& axis : info.mesh) {
    if (!axis.within_node) continue;
    for (int rank = 0; rank < static_cast<int>(host_of_rank.size()); ++rank) {
      const int first = rank - rank / axis.stride % axis.size * axis.stride;
      if (host_of_rank[rank] != host_of_rank[first])
        return fmt::format("mesh axis `{}` is `within node`, but ranks {} and {} of it run on different hosts",
                           axis.name, first, rank);
    }
  }
  return "";
}

void check_nodes(Rank& rank, const ProgramInfo& info) {
  if (std::none_of(info.mesh.begin(), info.mesh.end(), [](const MeshAxis& a) { return a.within_node && a.size > 1; }))
    return;
  if (const std::string problem = split_node(info, hosts_of_ranks(rank)); !problem.empty())
    throw Failure(
        Cause::environment,
        problem + "\nstart as many ranks on each host as the axis has, or a multiple; the last axis is innermost");
}

}  // namespace meshrt
