// link.h: messages between launchers of different hosts, over TCP. Each carries the rank it is from or for. Nothing
// blocks: what cannot be sent at once waits here, what has come in part waits for the rest; a peer that sends what is
// no message, or takes nothing for too long, is hung up on.
#pragma once
#include <poll.h>

#include <chrono>
#include <string>

#include "launch/descriptor.h"
#include "launch/message.h"

namespace meshrt {

class Link {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto silence = std::chrono::seconds(12);  ///< after which a peer counts as lost

  /// Takes a connected socket over.
  explicit Link(Descriptor socket);

  /// Longest message that is accepted; small until the peer has shown who it is.
  void accept_up_to(size_t bytes) { longest_ = bytes; }

  void send(int rank, const Message& message);
  /// The next message that has come in whole.
  Received receive(int& rank, Message& message);

  /// Moves bytes in and out, and says `alive` when nothing else was said for two seconds.
  void advance();
  /// What to poll for.
  pollfd watched() const { return {socket_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT), 0}; }
  bool closed() const { return socket_.get() < 0; }
  void close() { socket_ = Descriptor(); }
  bool sent_all() const { return out_.empty(); }
  /// The peer has said nothing for too long; not because this process itself was stopped.
  bool silent() const { return Clock::now() - heard_ > silence; }

  /// "10.0.0.3:40112": the peer, also when it is gone; the address of this end alone.
  const std::string& peer() const { return peer_; }
  std::string own_address() const;

 private:
  void read_some();
  void write_some();

  Descriptor socket_;
  std::string peer_;
  size_t longest_;
  std::string in_, out_;
  Clock::time_point heard_, spoke_, advanced_;
};

}  // namespace meshrt
