// channel.h: what a rank hands to another micro-batch by micro-batch, as stages of a pipeline do: one value over one
// channel, described once, when a program is bound. Nothing waits in between: a send ends when its receive has been
// posted and has taken the data, so there is never more under way than both ends have buffers for.
#pragma once
#include <memory>

#include "meshrt/collectives.h"

namespace meshrt {

/// The same on both ends.
struct ChannelShape {
  int from, to;       ///< ranks
  int number;         ///< tells apart channels from the one to the other, from 0
  int micro_batches;  ///< of a step, each sent once
  /// Micro-batch k goes in slot k % slots. Those of a slot come in the order in which they are sent, those of different
  /// slots in any.
  int slots = 1;
};

/// Where this end has micro-batch k: in buffer k % number.
struct ChannelBuffers {
  void* first;
  int64_t apart;  ///< bytes from one to the next
  int number;
};

class ChannelEnd {
 public:
  class Calls;  // src/collectives/channel.cpp

  /// Of this rank, which is one of the two. Without communication. Throws Failure (Cause::usage) for what cannot be.
  ChannelEnd(Rank&, const ChannelShape&, Site, const ChannelBuffers&, int64_t count, Type);
  ~ChannelEnd();
  ChannelEnd(ChannelEnd&&) noexcept;
  ChannelEnd& operator=(ChannelEnd&&) noexcept;

  /// Returns when what was in this micro-batch's buffer is sent, or has come.
  void make_room(int micro_batch);
  /// Sends what is in its buffer, or posts the buffer to be received into. Never waits. Throws Failure (Cause::usage)
  /// while another micro-batch is under way from or to this buffer.
  void start(int micro_batch);
  /// Returns when it is taken by the receiver; has come from the sender. At once for one that was never started.
  void wait(int micro_batch);
  /// Whether it is, after some work on all that is under way.
  bool finished(int micro_batch);
  /// Waits for all that were started.
  void finish();

 private:
  std::unique_ptr<Calls> calls_;
};

}  // namespace meshrt
