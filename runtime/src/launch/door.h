// door.h: how agents come to the coordinator: both prove that they have the job's secret (secret.h) before either
// believes a word, and what they say from then on is sealed (seal.h). What strangers send is small, bounded in time,
// and forgotten; however many they are, those who can prove themselves come in.
//
// The coordinator sends `challenge` (protocol_version, a nonce); the agent `proof` (its nonce, what its token follows
// from, Hello, and the hash of all that by the token); the coordinator `admitted` (a hash of both nonces).
#pragma once
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "launch/address.h"
#include "launch/link.h"
#include "launch/secret.h"

namespace meshrt {

/// What an agent says of itself.
struct Hello {
  int host = -1;     ///< index among the hosts of the job; -1: that is found by the ranks that enter there
  std::string name;  ///< for people
};

struct Visitor {
  std::unique_ptr<Link> link;
  Hello hello;
};

/// The coordinator's side.
class Door {
 public:
  /// Listens as listen_at has it.
  Door(const std::vector<std::string>& hosts, int port, Secret secret);

  int port() const { return port_of(listeners_.at(0).get()); }
  const std::vector<Descriptor>& listeners() const { return listeners_; }
  /// Nobody else comes.
  void close() { callers_.clear(), listeners_.clear(); }
  void watch(std::vector<pollfd>& watched) const;
  /// Those that have come in since the last call. A stranger is turned away, and told of on stderr once.
  std::vector<Visitor> admit();

 private:
  struct Caller {
    std::unique_ptr<Link> link;
    std::string host, nonce;
    Link::Clock::time_point since;
  };
  bool has_room() const;
  void answer_calls();
  void answer(Descriptor socket);
  bool knows(const Caller& caller, const Message& message, Visitor& visitor) const;
  void turn_away(const Caller& caller);

  std::vector<Descriptor> listeners_;
  Secret secret_;
  std::list<Caller> callers_;  // the oldest first
  Link::Clock::time_point rests_until_{};
  bool told_ = false;
};

/// The agent's side: connects to one of the addresses and comes in; tries again where it is hung up on without a word.
/// Throws Failure (Cause::environment) naming them.
std::unique_ptr<Link> enter(const std::vector<Address>& addresses, const Secret& secret, const Hello& hello,
                            std::chrono::milliseconds limit);

}  // namespace meshrt
