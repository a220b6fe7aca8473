#include "frontend/source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace mesh {

Span cover(Span first, Span last) {
  if (!first.known()) return last;
  if (!last.known()) return first;
  return Span{first.file, std::min(first.begin, last.begin), std::max(first.end, last.end)};
}

FileId SourceMap::add(std::string name, std::string text) {
  File file{std::move(name), std::move(text), {0}};
  for (std::size_t at = 0; at < file.text.size(); ++at) {
    if (file.text[at] == '\n') file.line_begins.push_back(static_cast<std::uint32_t>(at + 1));
  }
  files_.push_back(std::move(file));
  return static_cast<FileId>(files_.size());
}

std::optional<FileId> SourceMap::load(const std::string& path, std::string& error) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    error = "is a directory";
    return std::nullopt;
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    error = errno != 0 ? std::strerror(errno) : "cannot be opened";
    return std::nullopt;
  }
  constexpr size_t most = size_t{64} << 20;  // a device has no end
  std::string text;
  for (std::istreambuf_iterator<char> at(in), end; at != end && text.size() <= most; ++at) text += *at;
  if (text.size() > most) {
    error = "is larger than 64 MiB";
    return std::nullopt;
  }
  return add(path, std::move(text));
}

std::optional<FileId> SourceMap::find(std::string_view name) const {
  for (FileId file = 1; file <= files_.size(); ++file) {
    if (at(file).name == name) return file;
  }
  return std::nullopt;
}

std::string_view SourceMap::text(Span span) const {
  if (!span.known()) return {};
  return text(span.file).substr(span.begin, span.size());
}

std::uint32_t SourceMap::line_count(FileId file) const {
  return static_cast<std::uint32_t>(at(file).line_begins.size());
}

std::uint32_t SourceMap::line_of(FileId file, std::uint32_t offset) const {
  const auto& begins = at(file).line_begins;
  return static_cast<std::uint32_t>(std::upper_bound(begins.begin(), begins.end(), offset) - begins.begin());
}

std::uint32_t SourceMap::line_begin(FileId file, std::uint32_t line) const { return at(file).line_begins.at(line - 1); }

std::string_view SourceMap::line_text(FileId file, std::uint32_t line) const {
  const std::string_view all = text(file);
  const std::uint32_t begin = line_begin(file, line);
  std::string_view rest = all.substr(begin, all.find('\n', begin) - begin);
  if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
  return rest;
}

Position SourceMap::position(FileId file, std::uint32_t offset) const {
  const std::uint32_t line = line_of(file, offset);
  const std::uint32_t begin = line_begin(file, line);
  const std::string_view before = text(file).substr(begin, offset - begin);
  const auto characters = std::count_if(before.begin(), before.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return Position{line, static_cast<std::uint32_t>(characters) + 1};
}

std::string SourceMap::file_name(Span span) const {
  const std::string& path = span.known() ? name(span.file) : std::string();
  return path.substr(path.rfind('/') + 1);
}

std::string SourceMap::file_and_line(Span span) const {
  if (!span.known()) return "";
  return name(span.file) + ":" + std::to_string(begin(span).line);
}

}  // namespace mesh
