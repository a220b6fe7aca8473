// outbox.h: what a launcher has to say to a rank of its host. Nothing blocks: a rank that is stopped takes nothing from
// its socket, and what does not fit waits here, up to a bound.
#pragma once
#include <cstddef>
#include <deque>

#include "control/message.h"

namespace meshrt {

class Outbox {
 public:
  static constexpr size_t most_waiting = 64 << 20;  ///< bytes

  /// Sends it when there is room, or later.
  void send(int socket, const Message& message);
  /// Sends what there is room for.
  void flush(int socket);
  bool empty() const { return waiting_.empty(); }
  /// More has come than may wait: from then on nothing is sent.
  bool overflown() const { return bytes_ > most_waiting; }

 private:
  std::deque<Message> waiting_;
  size_t bytes_ = 0;
};

}  // namespace meshrt
