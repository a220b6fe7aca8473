#include "checkpoint/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "meshrt/failure.h"

namespace meshrt {

OutputFile::OutputFile(std::string path, Is is) : path_(std::move(path)) {
  const int make = is == Is::new_or_there ? O_CREAT : 0;
  file_ = Descriptor(open(path_.c_str(), O_WRONLY | make | O_CLOEXEC, 0666));
  if (file_.get() < 0) fail(errno);
}

void OutputFile::fail(int reason) const {
  throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path_, std::strerror(reason)));
}

void OutputFile::reserve(int64_t bytes) {
  if (bytes == 0 || fallocate(file_.get(), 0, 0, bytes) == 0) return;
  if (errno != EOPNOTSUPP) fail(errno);
  if (ftruncate(file_.get(), bytes) != 0) fail(errno);
}

void OutputFile::write(int64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file_.get(), bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written == 0 ? ENOSPC : errno);
    at += written;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::sync() {
  if (fsync(file_.get()) != 0) fail(errno);
}

void write_durably(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(0, std::as_bytes(std::span(text)));
  file.sync();
}

void sync_folder(const std::string& path) {
  const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems keep no order of names and say EINVAL: there is nothing to wait for.
  if (folder.get() < 0 || (fsync(folder.get()) != 0 && errno != EINVAL))
    throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path, std::strerror(errno)));
}

}  // namespace meshrt
