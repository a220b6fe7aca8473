// unpacked_file.h: a gzip file that the ranks of a host unpack once, together: to a file among the temporary ones,
// which each maps into memory. The first one unpacks while the others wait, the last one takes the file away. One that
// ranks left which were killed is found by the next run that reads the same data.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "system/descriptor.h"

namespace meshrt {

class UnpackedFile {
 public:
  /// `file` is open at `path`, its bytes are `packed`. Null where there is no room for such a file or it cannot be
  /// shared. Throws Failure (Cause::data) for a damaged file.
  static std::unique_ptr<const UnpackedFile> open(const std::string& path, int file, std::span<const std::byte> packed);
  ~UnpackedFile();
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  /// Open for reading, whole.
  int descriptor() const { return file_.get(); }

 private:
  UnpackedFile(std::string name, Descriptor file) : name_(std::move(name)), file_(std::move(file)) {}

  std::string name_;
  Descriptor file_;  // locked (flock): shared by those that read it, by one alone while it is written
};

}  // namespace meshrt
