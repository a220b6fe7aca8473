// text_file.h: small files, whole.
#pragma once
#include <string>

namespace meshrt {

/// Replaces the file `path` at once, so that a reader sees the old text or the new one; makes the folders above it.
/// Throws Failure (Cause::environment).
void write_text(const std::string& path, const std::string& text);

/// Empty when there is no such file.
std::string read_text(const std::string& path);

}  // namespace meshrt
