// link.h: messages between launchers of different hosts, over TCP. Each carries the rank it is from or for. Nothing
// blocks: what cannot be sent at once waits here, what has come in part waits for the rest; a peer that sends what is
// no message, or takes nothing for too long, is hung up on. Once both sides have shown who they are, every message is
// sealed (seal.h): what does not fit ends the connection.
//
// A message is a head of 16 bytes (bytes, kind, rank, value), its seal, and, if there are any, its bytes and their
// seal.
#pragma once
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "control/message.h"
#include "launch/seal.h"
#include "system/descriptor.h"

namespace meshrt {

class Link {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto silence = std::chrono::seconds(12);  ///< after which a peer counts as lost
  static constexpr size_t longest_message = 16 << 20;        ///< bytes, between those who have shown who they are

  /// Takes a connected socket over.
  explicit Link(Descriptor socket);

  /// Longest message that is accepted; small until the peer has shown who it is.
  void accept_up_to(size_t bytes) { longest_ = bytes; }

  /// From now on each message that is sent is sealed; each that comes has to be, and may be long.
  void seal_sent(const Seal& seal) { sent_ = seal; }
  void expect_sealed(const Seal& seal) { expected_ = seal, longest_ = longest_message; }

  /// Throws Failure (Cause::environment) when it is longer than longest_message.
  void send(int rank, const Message& message);
  /// The next message that has come in whole.
  Received receive(int& rank, Message& message);

  /// Moves bytes in and out, and says `alive` when nothing else was said for two seconds.
  void advance();
  /// What to poll for.
  pollfd watched() const { return {socket_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT), 0}; }
  bool closed() const { return socket_.get() < 0; }
  void close() { socket_ = Descriptor(); }
  /// Why it was closed here; empty: it was not, or by the peer.
  const std::string& fault() const { return fault_; }
  bool sent_all() const { return out_.empty(); }
  /// The peer has said nothing for too long; not because this process itself was stopped.
  bool silent() const { return Clock::now() - heard_ > silence; }

  /// "10.0.0.3:40112": the peer, also when it is gone; the address of this end alone.
  const std::string& peer() const { return peer_; }
  std::string own_address() const;

 private:
  struct Head {
    uint32_t bytes;
    int32_t kind, rank, value;
  };

  void read_some();
  void write_some();
  void append(std::string_view piece);
  bool take(size_t bytes, std::string& piece);
  void give_up(const std::string& fault);

  Descriptor socket_;
  std::string peer_, fault_;
  size_t longest_;
  std::string in_, out_;
  std::optional<Head> head_;  // of the message that is coming in
  std::optional<Seal> sent_, expected_;
  Clock::time_point heard_, spoke_, advanced_;
};

}  // namespace meshrt
