#include "system/growing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "meshrt/failure.h"
#include "system/tell.h"
#include "system/text_file.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

/// Cuts a file, which may be a terminal or a pipe: those have no length.
bool cut(int file, int64_t length) {
  struct stat now {};
  if (fstat(file, &now) != 0) return false;
  return !S_ISREG(now.st_mode) || now.st_size <= length || ftruncate(file, length) == 0;
}

}  // namespace

GrowingFile::GrowingFile(std::string path, int64_t kept, std::string head)
    : path_(std::move(path)), head_(std::move(head)) {
  std::error_code ignored;  // open tells what is wrong
  fs::create_directories(fs::path(path_).parent_path(), ignored);
  file_ = Descriptor(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));  // others may add to it
  if (file_.get() < 0 || !cut(file_.get(), kept))
    throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path_, std::strerror(errno)));
  if (const int error = append(head_); error != 0) tell_failure(error);
  else head_.clear();
}

void GrowingFile::add(std::string_view record) {
  if (const int error = append(head_ + std::string(record)); error != 0) {
    tell_failure(error);
    ++left_out_;
    return;
  }
  head_.clear();
  if (failing_) tell("`{}` is written again; entries lost: {}\n", path_, left_out_);
  failing_ = false;
  left_out_ = 0;
}

void GrowingFile::tell_failure(int error) {
  if (!failing_) tell("warning: cannot write `{}`: {}; the run goes on\n", path_, std::strerror(error));
  failing_ = true;
}

/// All of it or nothing; returns errno.
int GrowingFile::append(std::string_view bytes) {
  if (const int error = drop_tail(); error != 0) return error;
  const size_t written = write_all(file_.get(), bytes);
  if (written == bytes.size()) return 0;
  const int error = errno;
  tail_ = static_cast<int64_t>(written);
  drop_tail();
  return error;
}

int GrowingFile::drop_tail() {
  if (tail_ == 0) return 0;
  const off_t end = lseek(file_.get(), 0, SEEK_CUR);  // of what this file has written: others may have added since
  struct stat now {};
  if (fstat(file_.get(), &now) == 0 && now.st_size == end && ftruncate(file_.get(), end - tail_) != 0) return errno;
  tail_ = 0;
  return 0;
}

}  // namespace meshrt
