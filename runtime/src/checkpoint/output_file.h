// output_file.h: files that several ranks write at once, each its own bytes, and that are on disk when they say so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "system/descriptor.h"

namespace meshrt {

/// Every member throws Failure (Cause::environment) that names the file and the reason.
class OutputFile {
 public:
  enum class Is { there, new_or_there };
  /// Opens the file, or makes it if it may be new.
  explicit OutputFile(std::string path, Is is = Is::new_or_there);

  /// Gives the file this size, and the disk space for it where the file system can: a full disk is noticed now.
  void reserve(int64_t bytes);
  void write(int64_t at, std::span<const std::byte> bytes);
  /// Returns when what was written is on disk.
  void sync();

 private:
  [[noreturn]] void fail(int reason) const;
  std::string path_;
  Descriptor file_;
};

/// A small file, on disk when this returns.
void write_durably(const std::string& path, std::string_view text);

/// Returns when the names in a folder are on disk.
void sync_folder(const std::string& path);

}  // namespace meshrt
