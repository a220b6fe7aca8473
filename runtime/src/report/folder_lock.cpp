#include "report/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "meshrt/failure.h"

namespace meshrt {

namespace {

/// " (process 4711)", if it runs on this host and the kernel tells.
std::string holder_of(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return "";
  const std::string place = fmt::format("{:02x}:{:02x}:{}", major(status.st_dev), minor(status.st_dev), status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, how, access, process, locked;
    words >> number >> kind >> how >> access >> process >> locked;
    if (kind == "FLOCK" && locked == place && process != "0" && process != "-1")
      return fmt::format(" (process {})", process);
  }
  return "";
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
}

}  // namespace meshrt
