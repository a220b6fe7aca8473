// welcome.h: what a rank is told when it comes, and what an agent is told to start.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "control/placement.h"
#include "meshrt/launch.h"

namespace meshrt {

/// Raised whenever messages change: launchers and ranks of different builds refuse each other with a message.
constexpr int protocol_version = 6;

/// What carries collectives: memory within a host, messages between hosts; or one of the two alone.
enum class Carrier { arena, ucx, both };

/// The one that is asked for: "arena", "ucx", or empty for MESHRT_TRANSPORT or else what fits. Throws Failure
/// (Cause::usage) for another word, and for the arena between hosts.
Carrier choose_carrier(std::string transport, bool one_host);

struct Welcome {
  int rank = 0;
  int cpus = 0;  ///< that all ranks of this host may use together
  Carrier carrier = Carrier::arena;
  Placement placement;

  int ranks() const { return placement.ranks(); }
};

/// The job as one host needs it: which ranks run there and how they are started.
struct HostJob {
  Placement placement;
  int host = 0;
  Carrier carrier = Carrier::arena;
  std::vector<std::string> command;      ///< program and arguments
  std::vector<std::string> environment;  ///< NAME=VALUE, beside what the host has
  std::string folder;                    ///< to run in; empty: this one
  std::string log_folder;                ///< for a copy of what ranks print; empty: none
  bool tag_output = false;
  Binding binding = Binding::automatic;
};

std::string pack(const Welcome& welcome);
std::string pack(const HostJob& job);
/// Throw Failure (Cause::environment) for bytes that are not one, or of another version.
Welcome unpack_welcome(std::string_view bytes);
HostJob unpack_host_job(std::string_view bytes);

}  // namespace meshrt
