#include "report/flight_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
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

// The link that leads to the memory while the file takes the place of the first one, so that whoever finds a move half
// done can finish it.
std::string link_of_move(const std::string& path) { return path + ".memory"; }

// Removes a link, and the file in memory that it leads to.
void drop_link(const std::string& link) {
  const std::string memory = place_in_memory(link);
  if (memory.empty()) return;
  unlink(memory.c_str());
  unlink(link.c_str());
}

Descriptor reserved(Descriptor file, size_t bytes) {
  if (file.get() >= 0 && posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) == 0) return file;
  return {};
}

Descriptor new_file(const std::string& path, size_t bytes, mode_t mode) {
  return reserved(Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)), bytes);
}

// Where a rank was killed while it wrote the file of its recorder, its first part lies beside that.
void remove_unfinished(const fs::path& path) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), ignored))
    if (entry.path().filename().string().starts_with(path.filename().string() + ".unfinished-"))
      fs::remove(entry.path(), ignored);
}

}  // namespace

Descriptor make_flight_file(const std::string& path, size_t bytes) {
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  drop_flight(path);  // a file that is cut short under another run's mapping would kill that
  uint32_t word = 0;
  if (getentropy(&word, sizeof word) != 0) return {};
  const std::string name =
      fmt::format("{}{}-{}-{:08x}", memory_prefix, host_name(), fs::path(path).filename().string(), word);
  // The link first: a file that no link leads to would stay if the rank were killed here.
  if (symlink(name.c_str(), path.c_str()) == 0) {
    if (Descriptor file = new_file(name, bytes, 0600); file.get() >= 0) return file;
    drop_link(path);
  }
  return new_file(path, bytes, 0644);
}

bool bring_flight_home(const std::string& path) {
  const std::string memory = place_in_memory(path), second = link_of_move(path);
  if (memory.empty()) {
    drop_link(second);  // of a move that was stopped when the file was in its place
    return true;
  }
  const Descriptor file(open(memory.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  constexpr off_t most = 1 << 20;  // of a recorder
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > most)
    return true;
  std::string content(static_cast<size_t>(status.st_size), '\0');
  if (pread(file.get(), content.data(), content.size(), 0) != status.st_size) return false;
  if (symlink(memory.c_str(), second.c_str()) != 0 && errno != EEXIST) return false;
  try {
    write_text(path, content);
    drop_link(second);
    return true;
  } catch (const Failure&) {
    unlink(second.c_str());
    return false;  // it can be read where it is
  }
}

void finish_flight(const std::string& path) {
  const std::string memory = place_in_memory(path);
  if (memory.empty() && place_in_memory(link_of_move(path)).empty()) return;  // the rank has done it
  if (!memory.empty() && access(memory.c_str(), F_OK) != 0) unlink(path.c_str());
  else if (bring_flight_home(path)) remove_unfinished(path);
}

void drop_flight(const std::string& path) {
  drop_link(link_of_move(path));
  drop_link(path);
  unlink(path.c_str());
}

std::string flight_elsewhere(const std::string& path) {
  const std::string memory = place_in_memory(path);
  return !memory.empty() && access(memory.c_str(), F_OK) != 0 ? memory : "";
}

}  // namespace meshrt
