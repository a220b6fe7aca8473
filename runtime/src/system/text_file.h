// text_file.h: files read and written whole, or line by line.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace meshrt {

/// Whether a file that is replaced has reached the disk before the old one goes; else losing power may cost both.
enum class Durable { no, yes };

/// Replaces the file or link `path` at once, so that a reader sees the old text or the new one; makes the folders above
/// it. Throws Failure (Cause::environment).
void write_text(const std::string& path, const std::string& text, Durable durable = Durable::no);

/// The same for a file that a run can do without: when it cannot be written, false and a warning on stderr.
bool offer_text(const std::string& path, const std::string& text);

/// Adds a line to a file that others write too; one that is not there, or cannot be written, is left as it is.
void append_line(const std::string& path, const std::string& line);

/// Empty when there is no such file. Throws Failure (Cause::environment) when it cannot be read.
std::string read_text(const std::string& path);

/// Calls `see` with one line after the other, without its end; `whole` tells whether it has one. Fails as read_text.
void read_lines(const std::string& path, const std::function<void(std::string_view line, bool whole)>& see);

/// How many of `bytes` could be written; if not all, errno says why.
size_t write_all(int file, std::string_view bytes);

}  // namespace meshrt
