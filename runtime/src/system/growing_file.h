// growing_file.h: a file that tells of a run while it goes on, record by record: lines, or what TensorBoard reads.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "system/descriptor.h"

namespace meshrt {

/// Each record is there for others to see at once, whole or not at all. Those that cannot be written, say while the
/// disk is full, are left out, which is told on stderr when it begins and, with their number, when it is over; what the
/// run computes does not suffer.
class GrowingFile {
 public:
  /// Goes on behind the first `kept` bytes of the file `path`, which stay as they are; makes the folders above it.
  /// `head` comes before all records, if need be together with the first. Throws Failure (Cause::environment) when the
  /// file cannot be opened.
  GrowingFile(std::string path, int64_t kept, std::string head = "");
  void add(std::string_view record);

 private:
  int append(std::string_view bytes);
  int drop_tail();
  void tell_failure(int error);

  std::string path_;
  Descriptor file_;
  std::string head_;      // until it is written
  int64_t tail_ = 0;      // bytes at the end of the file that are no whole record
  bool failing_ = false;  // which has been told
  int64_t left_out_ = 0;  // records, since then
};

}  // namespace meshrt
