// tagged_output.h: what ranks print, line by line: with the rank in front, or also into files, or both.
#pragma once
#include <poll.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "system/descriptor.h"

namespace meshrt {

class TaggedOutput {
 public:
  TaggedOutput() = default;
  /// `log_folder` (made if it is not there) gets rank-N.out and rank-N.err, to which a restarted rank adds; empty:
  /// none. Throws Failure (Cause::environment) when it cannot be made.
  TaggedOutput(bool tagged, std::string log_folder);

  /// Otherwise ranks may write to where this process writes.
  bool in_use() const { return tagged_ || !log_folder_.empty(); }
  /// A pipe for what `rank` writes to stdout or stderr (`target`); returns the rank's end.
  Descriptor add(int rank, int target);
  /// Adds what has to be polled.
  void watch(std::vector<pollfd>& watched) const;
  /// Writes the whole lines that have come in.
  void forward();
  /// Writes what is left, with or without an end of line.
  void finish();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Stream {
    int rank, target;
    Descriptor pipe;
    std::unique_ptr<std::FILE, CloseFile> log;
    std::string pending;
  };
  void print(Stream& stream, size_t length) const;

  bool tagged_ = false;
  std::string log_folder_;
  std::vector<Stream> streams_;
};

}  // namespace meshrt
