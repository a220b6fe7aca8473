#include "meshrt/listening.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "launch/address.h"
#include "launch/secret.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

std::string value_of(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? fmt::format("{}={}", name, text) : otherwise;
}

Listening secret_of_bare_jobs() {
  try {
    return {"secret of bare srun, torchrun", secret_source(), ""};
  } catch (const Failure& failure) {
    return {"secret of bare srun, torchrun", "none: such jobs of several hosts are refused", failure.what()};
  }
}

}  // namespace

std::vector<Listening> what_listens() {
  const std::string ports = value_of("UCX_TCP_PORT_RANGE", "any TCP ports");
  return {
      {"listens, one host", "on no network; sockets @meshrt-... for processes of this user", ""},
      {"listens, hosts: control",
       fmt::format("a TCP port at {} of meshrun's or rank 0's host, until all have come; by the job's secret",
                   value_of("MESHRT_ADDRESS", fmt::format("{}", fmt::join(own_addresses(), ", ")).c_str())),
       ""},
      {"listens, hosts: data",
       fmt::format("UCX: {} of every rank over {}; everybody who reaches them, unencrypted; without RDMA one port more",
                   ports, value_of("UCX_NET_DEVICES", "the interface between the hosts")),
       ports == "any TCP ports" ? "UCX_TCP_PORT_RANGE=50000-50999, and a firewall that lets only the job's hosts reach "
                                  "them (runtime/ADMINISTRATION.md)"
                                : ""},
      secret_of_bare_jobs()};
}

}  // namespace meshrt
