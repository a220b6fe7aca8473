#include "system/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "meshrt/failure.h"
#include "system/descriptor.h"
#include "system/tell.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

/// Calls `see` with one piece after the other.
void read_pieces(const std::string& path, const std::function<void(std::string_view)>& see) {
  const auto fail = [&] {
    throw Failure(Cause::environment, fmt::format("cannot read `{}`: {}", path, std::strerror(errno)));
  };
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) return;
  if (file.get() < 0) fail();
  std::vector<char> room(1 << 16);
  for (ssize_t length = 0; (length = read(file.get(), room.data(), room.size())) != 0;) {
    if (length > 0) see({room.data(), static_cast<size_t>(length)});
    else if (errno != EINTR) fail();
  }
}

/// A new file whose name begins with `path` and gets an end that nobody else has. Returns errno.
int write_new(std::string& path, const std::string& text, Durable durable) {
  uint32_t word = 0;
  if (getentropy(&word, sizeof word) != 0) return errno;
  path += fmt::format("-{:08x}", word);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int error = write_all(file, text) != text.size() || (durable == Durable::yes && fsync(file) != 0) ? errno : 0;
  if (close(file) != 0 && error == 0) error = errno;  // network file systems tell late
  return error;
}

}  // namespace

size_t write_all(int file, std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t length = write(file, bytes.data() + done, bytes.size() - done);
    if (length < 0 && errno == EINTR) continue;
    if (length == 0) errno = ENOSPC;
    if (length <= 0) break;
    done += static_cast<size_t>(length);
  }
  return done;
}

void write_text(const std::string& path, const std::string& text, Durable durable) {
  std::error_code ignored;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, ignored);
  std::string unfinished = path + ".unfinished";
  int error = write_new(unfinished, text, durable);
  if (error == 0 && rename(unfinished.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(unfinished.c_str());
  throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path, std::strerror(error)));
}

bool offer_text(const std::string& path, const std::string& text) {
  try {
    write_text(path, text);
    return true;
  } catch (const Failure& failure) {
    tell("warning: {}; the run goes on without it\n", failure.what());
    return false;
  }
}

void append_line(const std::string& path, const std::string& line) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) std::ofstream(path, std::ios::binary | std::ios::app) << line + "\n";
}

std::string read_text(const std::string& path) {
  std::string text;
  read_pieces(path, [&](std::string_view piece) { text += piece; });
  return text;
}

void read_lines(const std::string& path, const std::function<void(std::string_view line, bool whole)>& see) {
  std::string pending;
  read_pieces(path, [&](std::string_view piece) {
    const size_t known = pending.size();
    pending += piece;
    size_t begin = 0;
    for (size_t end = known; (end = pending.find('\n', end)) != std::string::npos; begin = ++end)
      see(std::string_view(pending).substr(begin, end - begin), true);
    pending.erase(0, begin);
  });
  if (!pending.empty()) see(pending, false);
}

}  // namespace meshrt
