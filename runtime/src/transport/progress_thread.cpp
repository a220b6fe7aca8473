#include "transport/progress_thread.h"

#include <pthread.h>

#include <utility>

#include "system/wait.h"
#include "transport/transport.h"

namespace meshrt {

ProgressThread::ProgressThread(Transport& transport) : transport_(transport), thread_([this] { move_along(); }) {
  transport_.set_progress_thread(this);
  if (!transport_.pending_.empty()) change(busy);
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard turn(mutex_);  // lest the thread take it back at the end of a turn
    change(ended);
  }
  thread_.join();
  transport_.set_progress_thread(nullptr);
}

void ProgressThread::begin_turn() {
  wanted_.store(true, std::memory_order_relaxed);
  if (!seen([this] { return mutex_.try_lock(); }, 10'000)) mutex_.lock();
  wanted_.store(false, std::memory_order_relaxed);
  exceptions_ = std::uncaught_exceptions();
  if (!failure_) return;
  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  mutex_.unlock();
  std::rethrow_exception(failure);
}

void ProgressThread::end_turn(bool under_way) noexcept {
  if (std::uncaught_exceptions() > exceptions_) change(ended);
  else if (state_.load(std::memory_order_relaxed) != ended) change(under_way ? busy : idle);
  mutex_.unlock();
}

// notify_one() looks whether anybody waits. That must not come before the state is seen: who is about to wait would be
// missed, and wait for ever (libstdc++ 12 orders the two only behind a store in sequential order).
void ProgressThread::change(State state) noexcept {
  if (state_.load(std::memory_order_relaxed) == state) return;
  state_.store(state, std::memory_order_seq_cst);
  state_.notify_one();
}

bool ProgressThread::take_turn() {
  if (wanted_.load(std::memory_order_relaxed) || !mutex_.try_lock()) return false;
  const std::lock_guard turn(mutex_, std::adopt_lock);
  if (state_.load(std::memory_order_relaxed) != busy) return true;
  try {
    if (!transport_.can_go_on()) return false;
    if (!transport_.advance_all(GivesWay(wanted_))) change(idle);
  } catch (...) {
    failure_ = std::current_exception();
    change(ended);
  }
  return true;
}

void ProgressThread::move_along() {
  pthread_setname_np(pthread_self(), "progress");
  for (State now; (now = state_.load(std::memory_order_acquire)) != ended;) {
    if (now == idle) {
      state_.wait(idle, std::memory_order_acquire);
      continue;
    }
    // Between two messages it waits as a rank does: at once, then in turns, then in naps.
    const WaitPolicy policy;
    for (Patience patience(policy); !take_turn() && state_.load(std::memory_order_relaxed) == busy;) {
      if (patience.spins()) pause_core();
      else patience.rest();
      patience.read_clock();
    }
  }
}

}  // namespace meshrt
