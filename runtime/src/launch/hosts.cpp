#include "launch/hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "launch/agent_processes.h"
#include "launch/coordinator.h"
#include "launch/door.h"
#include "launch/remote_host.h"
#include "launch/restarts.h"
#include "meshrt/failure.h"
#include "system/host_name.h"
#include "system/wait.h"

extern char** environ;

namespace meshrt {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

bool is_this_host(const std::string& name) { return name == "localhost" || name == host_name(); }

/// What ranks on other hosts get of this environment: what concerns them, and what -x names.
std::vector<std::string> passed_on(const std::vector<std::string>& wanted) {
  static constexpr std::array prefixes = {"MESHRT_", "UCX_", "OMP_", "OPENBLAS_", "LD_LIBRARY_PATH="};
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (std::ranges::any_of(prefixes, [&](const char* prefix) { return text.starts_with(prefix); }) &&
        !text.starts_with("MESHRT_TOKEN"))
      result.emplace_back(text);
  }
  for (const std::string& variable : wanted) {
    const char* value = std::getenv(variable.c_str());
    if (variable.find('=') != std::string::npos) result.push_back(variable);
    else if (value) result.push_back(variable + "=" + value);
    else
      throw Failure(Cause::usage,
                    fmt::format("-x {}: there is no such variable; write -x {}=VALUE", variable, variable));
  }
  return result;
}

/// The command with its program as an absolute path, so that agents find it as this host does.
std::vector<std::string> found(std::vector<std::string> command) {
  if (command[0].find('/') != std::string::npos) command[0] = fs::absolute(command[0]).string();
  return command;
}

std::string this_program() { return fs::read_symlink("/proc/self/exe").string(); }

class HostsLauncher {
 public:
  HostsLauncher(const Placement& placement, const std::vector<std::string>& command, const HostsOptions& options)
      : options_(options),
        token_(options.started_elsewhere ? token_of_nodes() : Token::draw()),
        addresses_(addresses_for(placement)),
        door_(std::in_place, listening_hosts(), options.port, token_) {
    job_.placement = placement;
    job_.carrier = choose_carrier(options.launch.transport, placement.one_host());
    job_.command = found(command);
    job_.environment = passed_on(options.variables);
    job_.folder = fs::current_path().string();
    job_.tag_output = options.launch.tag_output;
    job_.log_folder = options.launch.log_folder.empty() ? "" : fs::absolute(options.launch.log_folder).string();
    job_.binding = options.launch.binding;
    links_.resize(placement.hosts.size());
  }

  Attempt run() {
    start_agents();
    if (const int code = gather(); code != 0) return {code, true};
    door_.reset();
    job_.placement.address = address_to_others();
    job_.placement.interface = interface_of(job_.placement.address);
    Coordinator coordinator(job_.placement, &signals_);
    for (size_t host = 0; host < links_.size(); ++host) {
      job_.host = static_cast<int>(host);
      coordinator.add(std::make_unique<RemoteHost>(std::move(links_[host]), job_, coordinator));
    }
    return {coordinator.run(), coordinator.was_asked_to_end()};
  }

 private:
  // Where agents may find this host: by the route to the first of the others. A name that only the command of
  // options_.shell understands, as an alias of ssh, shows no route: any of this host's addresses may be the one.
  std::vector<std::string> addresses_for(const Placement& placement) const {
    if (options_.started_elsewhere) return {"127.0.0.1"};
    if (!options_.address.empty()) return {options_.address};
    const auto other = std::ranges::find_if_not(placement.hosts, is_this_host);
    if (other == placement.hosts.end()) return {"127.0.0.1"};
    if (const auto address = address_towards(*other)) return {*address};
    return own_addresses();
  }

  // Only there: this host may have networks that the job has nothing to do with.
  std::vector<std::string> listening_hosts() const {
    std::vector<std::string> hosts = addresses_;
    if (!options_.address.empty()) {
      hosts = addresses_as(options_.address);
      if (options_.started_elsewhere) hosts.insert(hosts.end(), addresses_.begin(), addresses_.end());
    }
    std::ranges::sort(hosts);
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    return hosts;
  }

  // "10.0.0.1:4711,192.168.0.7:4711"
  std::string coordinator() const {
    std::vector<std::string> texts;
    for (const std::string& address : addresses_) texts.push_back(Address{address, door_->port()}.text());
    return fmt::format("{}", fmt::join(texts, ","));
  }

  void start_agents() {
    for (size_t host = 0; host < links_.size(); ++host) {
      const std::string& name = job_.placement.hosts[host];
      if (host > 0 && options_.started_elsewhere) break;
      agents_.start(host_is_here(host) ? "" : options_.shell, name,
                    {this_program(), "--agent", coordinator(), "--node-rank", std::to_string(host)}, token_);
    }
  }

  bool host_is_here(size_t host) const {
    return options_.started_elsewhere ? host == 0 : is_this_host(job_.placement.hosts[host]);
  }

  // By which the others came, for the ranks beside this coordinator: their agent may have come by loopback.
  std::string address_to_others() const {
    for (size_t host = 0; host < links_.size(); ++host)
      if (!host_is_here(host)) return links_[host]->own_address();
    return "";
  }

  std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (size_t host = 0; host < links_.size(); ++host)
      if (!links_[host]) names.push_back(job_.placement.hosts[host]);
    return names;
  }

  // Waits for all agents; 130 when a signal ends it.
  int gather() {
    const auto deadline = Clock::now() + std::chrono::duration<double>(options_.connect_timeout);
    while (!missing().empty()) {
      std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
      door_->watch(watched);
      poll(watched.data(), watched.size(), 100);
      if (!signals_.read().empty()) return 130;
      for (Visitor& visitor : door_->admit()) let_in(visitor);
      std::string how;
      if (const int host = agents_.ended(how); host >= 0 && !links_[host])
        throw Failure(Cause::environment,
                      fmt::format("host {}: the command that starts its agent ({}) {} before the agent came",
                                  job_.placement.hosts[host], options_.shell, how));
      if (Clock::now() > deadline && !missing().empty())
        throw Failure(
            Cause::environment,
            fmt::format("nothing was heard of {} within {:g} s: can it connect to {}? --address gives another "
                        "address of this host, --connect-timeout more time",
                        fmt::join(missing(), ", "), options_.connect_timeout, coordinator()));
    }
    return 0;
  }

  void let_in(Visitor& visitor) {
    const int host = visitor.hello.host;
    if (host < 0 || host >= static_cast<int>(links_.size()) || links_[host]) return;  // and its link is closed
    links_[host] = std::move(visitor.link);
    if (options_.started_elsewhere) job_.placement.hosts[host] = visitor.hello.name;
  }

  const HostsOptions& options_;
  const Signals signals_;
  const Token token_;
  const std::vector<std::string> addresses_;
  std::optional<Door> door_;
  HostJob job_;
  AgentProcesses agents_;
  std::vector<std::unique_ptr<Link>> links_;  // of hosts that have come
};

}  // namespace

Token token_of_nodes() {
  if (const auto token = token_from_environment()) return *token;
  throw Failure(
      Cause::usage,
      "set MESHRT_TOKEN to one secret on all nodes, or MESHRT_TOKEN_FILE to a file with it: with it, only they "
      "can join the job");
}

int launch_hosts(const Placement& placement, const std::vector<std::string>& command, const HostsOptions& options) {
  if (command.empty()) throw Failure(Cause::usage, "there is no program to run");
  if (options.launch.timeout != 0) setenv("MESHRT_TIMEOUT", fmt::format("{}", options.launch.timeout).c_str(), 1);
  wait_policy(1, 1);  // refuses a bad MESHRT_TIMEOUT once, not in every rank
  return with_restarts(options.launch.restarts, [&] { return HostsLauncher(placement, command, options).run(); });
}

}  // namespace meshrt
