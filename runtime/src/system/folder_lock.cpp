#include "system/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include "meshrt/failure.h"
#include "system/host_name.h"

namespace meshrt {

namespace {

/// " (process 4711 on node3)", as the holder has written into the locked file; "" where it could not.
std::string holder_of(int file) {
  std::array<char, 256> text{};
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  const std::string_view holder(text.data(), static_cast<size_t>(std::max<ssize_t>(0, length)));
  const bool plain = std::ranges::all_of(holder, [](char c) { return c >= ' ' && c <= '~'; });
  return holder.empty() || !plain ? "" : fmt::format(" ({})", holder);
}

/// The kernel knows the holder too, but not of other hosts, and /proc/locks may be slow to read, with every signal
/// waiting.
void sign(int file) {
  const std::string holder = fmt::format("process {} on {}", getpid(), host_name());
  // On a full disk the file stays empty, and a second run is told no process.
  if (ftruncate(file, 0) == 0) [[maybe_unused]]
    const ssize_t written = pwrite(file, holder.data(), holder.size(), 0);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, const std::string& folder_told, const std::string& way_out)
    // A regular file, open for writing: NFS keeps locks of folders on this host, and passes only such a lock on to the
    // server.
    : file_(open((std::filesystem::path(folder) / lock_name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  const auto tell = [&](int reason) {
    problem_ = fmt::format("`{}` cannot be locked ({}): nothing keeps a second run from writing into it", folder_told,
                           std::strerror(reason));
  };
  if (file_.get() < 0) {
    tell(errno);
    return;
  }
  // The ranks of a launcher that was killed end a moment later.
  constexpr std::chrono::milliseconds patience(1000), nap(20);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      tell(errno);
      return;
    }
    if (std::chrono::steady_clock::now() >= deadline)
      throw Failure(Cause::environment, fmt::format("another run{} writes into `{}`: wait for its end, or {}",
                                                    holder_of(file_.get()), folder_told, way_out));
    std::this_thread::sleep_for(nap);
  }
  sign(file_.get());
}

}  // namespace meshrt
