#include "launch/tagged_output.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "meshrt/failure.h"
#include "system/tell.h"

namespace meshrt {

TaggedOutput::TaggedOutput(bool tagged, std::string log_folder) : tagged_(tagged), log_folder_(std::move(log_folder)) {
  std::error_code failed;
  if (!log_folder_.empty()) std::filesystem::create_directories(log_folder_, failed);
  if (failed)
    throw Failure(Cause::environment,
                  fmt::format("--log-dir: cannot make the folder {}: {}", log_folder_, failed.message()));
}

Descriptor TaggedOutput::add(int rank, int target) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Failure(Cause::environment, fmt::format("cannot make a pipe for rank {}: {}", rank, std::strerror(errno)));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Stream stream{rank, target, Descriptor(ends[0]), nullptr, {}};
  Descriptor theirs(ends[1]);
  if (!log_folder_.empty()) {
    const std::string path = fmt::format("{}/rank-{}.{}", log_folder_, rank, target == STDOUT_FILENO ? "out" : "err");
    stream.log.reset(std::fopen(path.c_str(), "ae"));
    if (!stream.log)
      throw Failure(Cause::environment, fmt::format("--log-dir: cannot write {}: {}", path, std::strerror(errno)));
  }
  streams_.push_back(std::move(stream));
  return theirs;
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

void TaggedOutput::print(Stream& stream, size_t length) const {
  std::FILE* file = stream.target == STDOUT_FILENO ? stdout : stderr;
  const std::string line = stream.pending.substr(0, length);
  if (tagged_) tell_on(file, "[{}] {}", stream.rank, line);
  else tell_on(file, "{}", line);
  std::fflush(file);
  if (stream.log) {
    tell_on(stream.log.get(), "{}", line);
    std::fflush(stream.log.get());
  }
  stream.pending.erase(0, length);
}

}  // namespace meshrt
