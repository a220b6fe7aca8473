// text_file.h: small files, whole.
#pragma once
#include <string>

namespace meshrt {

/// Replaces the file `path` at once, so that a reader sees the old text or the new one; makes the folders above it.
/// Throws Failure (Cause::environment).
void write_text(const std::string& path, const std::string& text);

/// Adds a line to a file that others write too; one that is not there, or cannot be written, is left as it is.
void append_line(const std::string& path, const std::string& line);

/// Empty when there is no such file.
std::string read_text(const std::string& path);

}  // namespace meshrt
