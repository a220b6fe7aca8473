#include "report/flight_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "meshrt/failure.h"
#include "system/host_name.h"
#include "system/text_file.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

const std::string memory_prefix = "/dev/shm/meshrt-flight-";

// What the link `path` leads to in memory; empty when it is no such link.
std::string place_in_memory(const std::string& path) {
  std::error_code none;
  const std::string target = fs::read_symlink(path, none).string();
  const bool ours = target.starts_with(memory_prefix) && target.find('/', memory_prefix.size()) == std::string::npos;
  return !none && ours ? target : "";
}

Descriptor reserved(Descriptor file, size_t bytes) {
  if (file.get() >= 0 && posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) == 0) return file;
  return {};
}

}  // namespace

Descriptor make_flight_file(const std::string& path, size_t bytes) {
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  drop_flight(path);  // a file that is cut short under another run's mapping would kill that
  std::string name = memory_prefix + host_name() + "-" + fs::path(path).filename().string() + "-XXXXXX";
  if (Descriptor file = reserved(Descriptor(mkostemp(name.data(), O_CLOEXEC)), bytes); file.get() >= 0)
    if (symlink(name.c_str(), path.c_str()) == 0) return file;
  unlink(name.c_str());
  return reserved(Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644)), bytes);
}

bool bring_flight_home(const std::string& path) {
  const std::string memory = place_in_memory(path);
  const Descriptor file(memory.empty() ? -1 : open(memory.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  constexpr off_t most = 1 << 20;  // of a recorder
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > most)
    return true;
  std::string content(static_cast<size_t>(status.st_size), '\0');
  if (pread(file.get(), content.data(), content.size(), 0) != status.st_size) return false;
  try {
    write_text(path, content);
    unlink(memory.c_str());
    return true;
  } catch (const Failure&) {
    return false;  // it can be read where it is
  }
}

void drop_flight(const std::string& path) {
  if (const std::string memory = place_in_memory(path); !memory.empty()) unlink(memory.c_str());
  unlink(path.c_str());
}

std::string flight_elsewhere(const std::string& path) {
  const std::string memory = place_in_memory(path);
  return !memory.empty() && access(memory.c_str(), F_OK) != 0 ? memory : "";
}

}  // namespace meshrt
