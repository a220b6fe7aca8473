// agent.h: the launcher of one host of a larger job: starts or welcomes its ranks when the coordinator says so, and
// carries messages between the two.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/address.h"
#include "launch/link.h"
#include "launch/own_ranks.h"
#include "launch/secret.h"
#include "launch/signals.h"

namespace meshrt {

class Agent : private HostEvents {
 public:
  /// `make_ranks` gives it the ranks that it serves. `signals` end it; none: they are for others to heed.
  Agent(std::unique_ptr<Link> link, const std::function<std::unique_ptr<OwnRanks>(HostEvents&)>& make_ranks,
        const Signals* signals);

  /// Serves until its ranks have ended and the coordinator has heard it; without a coordinator nobody of them lives on.
  /// Returns an exit code for whoever started the agent: 0, or 3 when it was left alone.
  int run();
  bool has_begun() const { return begun_; }

 private:
  bool left_alone() const { return link_->closed() || link_->silent(); }
  void heed_signals();
  void listen();
  void try_to_begin(const std::string& text);
  void part();

  void entered(int rank, int pid) override { link_->send(rank, {MessageKind::entered, pid, {}}); }
  void received(int rank, const Message& message) override { link_->send(rank, message); }
  void ended(int rank, int status) override { link_->send(rank, {MessageKind::ended, status, {}}); }
  void asked_to_end(int, int) override {}  // only the coordinator has other hosts
  void lost(int, const std::string&) override {}

  std::unique_ptr<Link> link_;
  std::unique_ptr<OwnRanks> ranks_;
  const Signals* signals_;
  bool begun_ = false, ended_ = false;
};

/// The agent that meshrun starts as host `host` of its job, with ranks of its own. Throws Failure (Cause::environment)
/// when the coordinator cannot be reached.
int run_agent(const std::vector<Address>& coordinator, const Secret& secret, int host, std::chrono::milliseconds limit);

}  // namespace meshrt
