// tagged_output.h: what ranks print, line by line, with the rank in front.
#pragma once
#include <poll.h>

#include <string>
#include <vector>

#include "launch/descriptor.h"

namespace meshrt {

class TaggedOutput {
 public:
  /// A pipe for what `rank` writes to stdout or stderr (`target`); returns the rank's end.
  Descriptor add(int rank, int target);
  /// Adds what has to be polled.
  void watch(std::vector<pollfd>& watched) const;
  /// Writes the whole lines that have come in.
  void forward();
  /// Writes what is left, with or without an end of line.
  void finish();

 private:
  struct Stream {
    int rank, target;
    Descriptor pipe;
    std::string pending;
  };
  static void print(Stream& stream, size_t length);

  std::vector<Stream> streams_;
};

}  // namespace meshrt
