// read_ahead.h: a thread that reads the next batch while the program works on this one, so that a step does not wait
// for a disk.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batches.h"

namespace meshrt {

class ReadAhead {
 public:
  /// `batches` must outlive this, and not be changed any more.
  explicit ReadAhead(const Batches& batches) : batches_(batches) {}
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Puts the batch that begins at sample `position` into the input tensors, and, unless `next` is negative, begins to
  /// read the one there. Throws what reading threw, when the batch is wanted.
  void fill(int64_t position, int64_t next);

 private:
  void work();
  bool take(int64_t position);  // what was read, if it is that

  const Batches& batches_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> batch_;
  std::exception_ptr failure_;
  int64_t position_ = -1;  // of what is read or being read
  bool wanted_ = false;    // it is to be read
  bool ending_ = false;
  std::thread thread_;  // begun with the first batch that is read ahead
};

}  // namespace meshrt
