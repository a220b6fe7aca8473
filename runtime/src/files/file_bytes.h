// file_bytes.h: the bytes of a whole file: mapped into memory, or unpacked when the file is gzip-compressed (a large
// one once for all ranks of a host); and files written so that nobody ever sees half of one.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/mapped_files.h"
#include "files/unpacked_file.h"

namespace meshrt {

/// Whether a file that starts with gzip's magic number is unpacked, whatever its name.
enum class Compression { detect, none };

/// A file opened for reading. Pages of a plain file are read when they are touched.
class FileBytes {
 public:
  /// Throws Failure (Cause::data) that names the file when it cannot be read, or is a damaged .gz.
  static std::shared_ptr<const FileBytes> open(const std::string& path, Compression = Compression::detect);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  explicit FileBytes(std::string path) : path_(std::move(path)) {}
  void map(int descriptor);
  void unmap();
  void unpack(int descriptor);

  std::string path_;
  std::optional<MappedFile> told_;  // of the mapping
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::unique_ptr<const UnpackedFile> shared_;
  std::vector<std::byte> unpacked_;  // where that is null
  std::span<const std::byte> bytes_;
};

/// Writes `parts` one after the other to a file beside `path`, then gives it that name. Throws Failure
/// (Cause::environment) that names the file and the reason.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

}  // namespace meshrt
