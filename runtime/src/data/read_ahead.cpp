#include "data/read_ahead.h"

#include <csignal>

namespace meshrt {

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::fill(int64_t position, int64_t next) {
  if (!take(position)) batches_.fill(position);
  if (next < 0) return;
  batch_.resize(batches_.bytes());
  {
    const std::lock_guard lock(mutex_);
    position_ = next;
    wanted_ = true;
  }
  if (!thread_.joinable()) {
    // Signals are for the rank's own thread, but for what reading a file that was cut short raises here.
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { work(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  changed_.notify_all();
}

bool ReadAhead::take(int64_t position) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !wanted_; });
  if (position_ != position) return false;
  position_ = -1;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  batches_.put(batch_.data());
  return true;
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return wanted_ || ending_; });
    if (ending_) return;
    const int64_t position = position_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      batches_.read(position, batches_.batch_size(), batch_.data());
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    wanted_ = false;
    changed_.notify_all();
  }
}

}  // namespace meshrt
