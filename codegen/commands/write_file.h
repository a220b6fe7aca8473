// write_file.h: a file that a command was asked to write.
#pragma once
#include <string>

namespace mesh {

/// Throws meshrt::Failure (Cause::environment) where it cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace mesh
