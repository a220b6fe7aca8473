// progress_thread.h: a second thread of a rank, which moves along the collectives that the rank has started while the
// rank itself computes; without it the rank does that in poll(), on the core that computes. Either has the transport in
// turns, and the rank's own thread goes first: it waits until the other has done with a round of messages, or with
// some 64 KiB of a sum in shared memory.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

namespace meshrt {

class Transport;

class ProgressThread {
 public:
  /// For the calling thread's rank. Throws std::system_error where the system starts no more threads. Buffers of calls
  /// that are under way, and what calls stand in, outlive it; an exception that comes out of the transport stops it.
  explicit ProgressThread(Transport& transport);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // ---- for the transport ----
  /// Whether it moves along what is under way. After a failure it does not: the next turn throws that.
  bool runs() const { return state_.load(std::memory_order_relaxed) != ended; }
  /// The rank's own thread begins and ends a turn.
  /// Throws what has failed since the last one.
  void begin_turn();
  /// `under_way`: calls are. After an exception nothing is moved any more: what stands in the stack that it unwinds may
  /// be part of a call.
  void end_turn(bool under_way) noexcept;

 private:
  enum State : uint32_t { idle, busy, ended };

  void move_along();
  /// True: something has moved. Nothing is done while the rank's own thread has its turn, or wants it.
  bool take_turn();
  void change(State state) noexcept;

  Transport& transport_;
  std::mutex mutex_;
  std::atomic<bool> wanted_ = false;  // by the rank's own thread
  std::atomic<State> state_ = idle;
  int exceptions_ = 0;  // in flight as a turn began
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace meshrt
