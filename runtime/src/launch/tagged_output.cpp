#include "launch/tagged_output.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "meshrt/failure.h"

namespace meshrt {

Descriptor TaggedOutput::add(int rank, int target) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Failure(Cause::environment, fmt::format("cannot make a pipe for rank {}: {}", rank, std::strerror(errno)));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  streams_.push_back({rank, target, Descriptor(ends[0]), {}});
  return Descriptor(ends[1]);
}

void TaggedOutput::watch(std::vector<pollfd>& watched) const {
  for (const Stream& stream : streams_) watched.push_back({stream.pipe.get(), POLLIN, 0});
}

void TaggedOutput::forward() {
  for (Stream& stream : streams_) {
    char room[4096];
    ssize_t length = 0;
    while (stream.pipe.get() >= 0 && (length = read(stream.pipe.get(), room, sizeof room)) > 0)
      stream.pending.append(room, length);
    if (length == 0) stream.pipe = Descriptor();
    for (size_t end = 0; (end = stream.pending.find('\n')) != std::string::npos;) print(stream, end + 1);
  }
}

void TaggedOutput::finish() {
  forward();
  for (Stream& stream : streams_) {
    if (stream.pending.empty()) continue;
    stream.pending += '\n';
    print(stream, stream.pending.size());
  }
}

void TaggedOutput::print(Stream& stream, size_t length) {
  std::FILE* file = stream.target == STDOUT_FILENO ? stdout : stderr;
  fmt::print(file, "[{}] {}", stream.rank, stream.pending.substr(0, length));
  std::fflush(file);
  stream.pending.erase(0, length);
}

}  // namespace meshrt
