// remote_host.h: a host behind its agent, as the coordinator sees it.
#pragma once
#include <memory>

#include "control/welcome.h"
#include "launch/host.h"
#include "launch/link.h"

namespace meshrt {

class RemoteHost : public Host {
 public:
  /// Tells the agent to start its ranks.
  RemoteHost(std::unique_ptr<Link> link, const HostJob& job, HostEvents& events);

  void watch(std::vector<pollfd>& watched) const override { watched.push_back(link_->watched()); }
  int patience() const override { return 500; }  // milliseconds: silence is noticed, and signs of life given
  void advance() override;
  void send(int rank, const Message& message) override { link_->send(rank, message); }
  void signal(int number) override { link_->send(every_rank, {MessageKind::signal, number, {}}); }
  void clear() override;
  void flush() override {}

 private:
  void take(int rank, const Message& message);
  void lose(const std::string& why);

  std::unique_ptr<Link> link_;
  int host_;
  HostEvents& events_;
  std::vector<int> running_;  // its ranks whose end it has not told
};

}  // namespace meshrt
