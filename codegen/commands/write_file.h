// write_file.h: a file that a command was asked to write.
#pragma once
#include <string>
#include <vector>

namespace mesh {

/// Throws meshrt::Failure (Cause::environment) where it cannot be written.
void write_file(const std::string& path, const std::string& text);

/// Throws as it would, before what is to be written is made; leaves the file as it is. Nothing to do for an empty path.
void require_writable(const std::string& path);

/// Throws UsageError where the file that `option` is to write is one of those that are read.
void keep_read(const std::string& option, const std::string& path, const std::vector<std::string>& read);

}  // namespace mesh
