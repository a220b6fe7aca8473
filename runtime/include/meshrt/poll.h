// poll.h: progress of collectives during computation. Kernels and loop nests call poll() every 100 us or more often; it
// moves along what this thread's rank has started and not finished, every 20 us at most, and costs one test of a
// pointer where that is nothing. Kernels are compiled once an instruction set, so it must always be inline there.
#pragma once

namespace meshrt {

class Transport;

namespace detail {
extern constinit thread_local Transport* pending;  ///< of this thread's rank; null: nothing is under way
void advance_pending();
}  // namespace detail

[[gnu::always_inline]] inline void poll() {
  if (detail::pending) detail::advance_pending();
}

}  // namespace meshrt
