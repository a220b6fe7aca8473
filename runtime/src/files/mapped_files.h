// mapped_files.h: files that are cut short while they are mapped into memory: reading them is then a fault of memory
// (SIGBUS), which names no file by itself.
#pragma once
#include <atomic>
#include <cstddef>
#include <span>
#include <string>

namespace meshrt {

/// While it lives, a SIGBUS within `bytes` ends the process with one line on stderr that names the file, and the exit
/// code of Cause::data. Another SIGBUS ends it as ever. Of more files than a few hundred at once, the last ones are not
/// known by name.
class MappedFile {
 public:
  MappedFile(std::span<const std::byte> bytes, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

 private:
  std::string told_;                                 // the line
  std::atomic<const MappedFile*>* place_ = nullptr;  // in the table of all; none where that was full
  std::span<const std::byte> bytes_;

  friend struct MappedFiles;
};

}  // namespace meshrt
