// From the options of meshrun to a job on several hosts.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "launch/agent.h"
#include "launch/host_list.h"
#include "launch/hosts.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"

namespace meshrt {

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

std::vector<HostSlots> listed_hosts(const SeveralHosts& options) {
  if (!options.hosts.empty()) return parse_hosts(options.hosts);
  if (options.host_file.empty())
    throw Failure(Cause::usage,
                  fmt::format("--nnodes {}: which? Give --hosts or --hostfile, or --node-rank", options.nodes));
  std::ifstream file(options.host_file);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Failure(Cause::usage, fmt::format("--hostfile {}: cannot be read", options.host_file));
  return parse_host_file(text.str(), options.host_file);
}

HostsOptions hosts_options(const SeveralHosts& options) {
  HostsOptions result;
  result.launch = options.launch;
  const char* shell = std::getenv("MESHRUN_SSH");
  result.shell = !options.shell.empty() ? options.shell : shell && *shell ? shell : "ssh -o BatchMode=yes";
  result.address = options.address;
  result.variables = options.variables;
  result.connect_timeout = options.connect_timeout;
  return result;
}

// One meshrun on each node, as containers are started.
int run_as_node(const std::vector<std::string>& command, const SeveralHosts& options) {
  if (options.coordinator.empty() || options.nodes == 0 || options.per_node == 0)
    throw Failure(Cause::usage, "--node-rank needs --nnodes, --nproc-per-node and --coordinator HOST:PORT");
  if (options.node_rank >= options.nodes)
    throw Failure(Cause::usage,
                  fmt::format("--node-rank {} of --nnodes {}: they count from 0", options.node_rank, options.nodes));
  if (options.launch.restarts > 0)
    throw Failure(Cause::usage,
                  "--max-restarts cannot restart nodes that are started elsewhere: let that restart them");
  const Address coordinator = parse_address(options.coordinator, "--coordinator");
  if (options.node_rank > 0)
    return run_agent({coordinator}, token_of_nodes(), options.node_rank, milliseconds(options.connect_timeout));
  std::vector<HostSlots> nodes;
  nodes.reserve(static_cast<size_t>(options.nodes));
  for (int node = 0; node < options.nodes; ++node) nodes.push_back({fmt::format("node {}", node), options.per_node});
  HostsOptions job = hosts_options(options);
  job.started_elsewhere = true;
  job.port = coordinator.port;
  if (job.address.empty()) job.address = coordinator.host;
  return launch_hosts(place_ranks(nodes, {}), command, job);
}

}  // namespace

int launch_on_hosts(int ranks, const std::vector<std::string>& command, const SeveralHosts& options) {
  if (options.node_rank >= 0) return run_as_node(command, options);
  return launch_hosts(place_ranks(listed_hosts(options), {ranks, options.nodes, options.per_node}), command,
                      hosts_options(options));
}

int serve_as_agent(const std::string& coordinator, int host, double connect_timeout) {
  std::string token;
  std::getline(std::cin, token);
  return run_agent(parse_addresses(coordinator, "--agent"), Token::from(token), host, milliseconds(connect_timeout));
}

}  // namespace meshrt
