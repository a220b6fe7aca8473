#include "files/unpacked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "files/gzip.h"

namespace meshrt {

namespace {

// A file that is whole may be executed: its mode changes at once, and outlives whoever wrote it.
constexpr mode_t unfinished = 0600, whole = 0700;

struct stat status_of(int file) {
  struct stat status {};
  fstat(file, &status);
  return status;
}

/// Of what `packed` holds: another file under its path, or another content, has another name. Empty where there is no
/// folder for temporary files.
std::string name_for(int packed) {
  const struct stat of = status_of(packed);
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
  if (none) return "";
  return (folder / fmt::format("meshrt-unpacked-{}-{:x}-{:x}-{:x}-{:x}.{:x}", geteuid(), of.st_dev, of.st_ino,
                               of.st_size, of.st_mtim.tv_sec, of.st_mtim.tv_nsec))
      .string();
}

bool lock(int file, int how) {
  while (flock(file, how) != 0)
    if (errno != EINTR) return false;
  return true;
}

bool is_whole(int file) { return (status_of(file).st_mode & 0777) == whole; }
bool is_gone(int file) { return status_of(file).st_nlink == 0; }

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

/// Takes the file away if it is not made whole.
class Writing {
 public:
  Writing(std::string name, int file) : name_(std::move(name)), file_(file) {}
  ~Writing() {
    if (!is_whole(file_)) unlink(name_.c_str());
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  bool unpack(const std::string& path, std::span<const std::byte> packed) {
    return ftruncate(file_, 0) == 0 && lseek(file_, 0, SEEK_SET) == 0 &&
           unpack_gzip(path, packed, [&](std::span<const std::byte> piece) { return write_all(file_, piece); }) &&
           fsync(file_) == 0 && fchmod(file_, whole) == 0;
  }

 private:
  std::string name_;
  int file_;
};

}  // namespace

std::unique_ptr<const UnpackedFile> UnpackedFile::open(const std::string& path, int file,
                                                       std::span<const std::byte> packed) {
  const std::string name = name_for(file);
  if (name.empty()) return nullptr;
  while (true) {
    Descriptor shared(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, unfinished));
    if (shared.get() < 0) return nullptr;
    const struct stat status = status_of(shared.get());
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) return nullptr;  // somebody else has put it there
    // Those that read it hold it until they end: to write is tried, never waited for.
    if (flock(shared.get(), LOCK_EX | LOCK_NB) == 0 && !is_gone(shared.get()) && !is_whole(shared.get()) &&
        !Writing(name, shared.get()).unpack(path, packed))
      return nullptr;
    if (!lock(shared.get(), LOCK_SH)) return nullptr;
    if (!is_gone(shared.get()) && is_whole(shared.get()))
      return std::unique_ptr<const UnpackedFile>(new UnpackedFile(name, std::move(shared)));
    shared = Descriptor();  // whoever wrote it has given up, or the last reader took it away
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

UnpackedFile::~UnpackedFile() {
  // Whoever else reads it holds the lock.
  if (flock(file_.get(), LOCK_EX | LOCK_NB) == 0) unlink(name_.c_str());
}

}  // namespace meshrt
