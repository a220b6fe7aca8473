// door.h: how agents come to the coordinator: both prove that they have the job's token (token.h) before either
// believes a word. What strangers send is small, bounded in time, and forgotten.
#pragma once
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "launch/address.h"
#include "launch/link.h"
#include "launch/token.h"

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
  /// Listens at `port` (0: a free one) of `host`, or of all interfaces when it is empty.
  Door(const std::string& host, int port, Token token);

  int port() const { return port_of(listener_.get()); }
  int descriptor() const { return listener_.get(); }
  /// Nobody else comes.
  void close() { callers_.clear(), listener_ = Descriptor(); }
  void watch(std::vector<pollfd>& watched) const;
  /// Those that have come in since the last call. A stranger is turned away, and told of on stderr once.
  std::vector<Visitor> admit();

 private:
  struct Caller {
    std::unique_ptr<Link> link;
    std::string nonce;
    Link::Clock::time_point since;
  };
  void answer_calls();
  bool knows(const Caller& caller, const Message& message, Visitor& visitor) const;
  void turn_away(const Caller& caller);

  Descriptor listener_;
  Token token_;
  std::list<Caller> callers_;
  bool told_ = false;
};

/// The agent's side: connects to one of the addresses and comes in. Throws Failure (Cause::environment) naming them.
std::unique_ptr<Link> enter(const std::vector<Address>& addresses, const Token& token, const Hello& hello,
                            std::chrono::milliseconds limit);

}  // namespace meshrt
