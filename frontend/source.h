// Source texts and positions in them.
//
// A SourceMap owns every text that a message may point into: specs from disk, the library that is built into the
// compiler, texts given in memory by tests and editors, and the command line. A Span is a range of bytes of one of
// them. There is no global map: whoever compiles owns one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mesh {

// Names a text of a SourceMap. 0 is no text at all: what has no position has a Span with file 0.
using FileId = std::uint32_t;

// The bytes [begin, end) of a file. A span of length 0 points between two characters.
struct Span {
  FileId file = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool known() const { return file != 0; }
  std::uint32_t size() const { return end - begin; }
};

inline bool operator==(const Span& a, const Span& b) {
  return a.file == b.file && a.begin == b.begin && a.end == b.end;
}
inline bool operator!=(const Span& a, const Span& b) { return !(a == b); }

// The smallest span that covers both; an unknown one is ignored. Both must lie in one file.
Span cover(Span first, Span last);

// A place as people count: line and column start at 1, the column counts characters (code points), not bytes.
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

class SourceMap {
 public:
  // Adds a text that is already in memory under the name that messages will show.
  FileId add(std::string name, std::string text);

  // Reads a file from disk. Nothing, and the reason in `error`, when it cannot be read.
  std::optional<FileId> load(const std::string& path, std::string& error);

  // The file that was added under this name first.
  std::optional<FileId> find(std::string_view name) const;

  std::size_t size() const { return files_.size(); }
  const std::string& name(FileId file) const { return at(file).name; }
  std::string_view text(FileId file) const { return at(file).text; }
  std::string_view text(Span span) const;

  // Lines are counted from 1; a line's text has no line end. A file has at least one line.
  std::uint32_t line_count(FileId file) const;
  std::uint32_t line_of(FileId file, std::uint32_t offset) const;
  std::string_view line_text(FileId file, std::uint32_t line) const;
  std::uint32_t line_begin(FileId file, std::uint32_t line) const;  // offset of the line's first byte

  Position begin(Span span) const { return position(span.file, span.begin); }
  Position end(Span span) const { return position(span.file, span.end); }  // one past the last character
  Position position(FileId file, std::uint32_t offset) const;

  // `gpt.mesh`, the name without its folder: what is emitted or planned is kept beside programs, wherever these were
  // compiled; "" for an unknown span.
  std::string file_name(Span span) const;
  // `gpt.mesh:24` for comments and short messages; "" for an unknown span.
  std::string file_and_line(Span span) const;

 private:
  struct File {
    std::string name;
    std::string text;
    std::vector<std::uint32_t> line_begins;
  };

  const File& at(FileId file) const { return files_.at(file - 1); }

  std::deque<File> files_;  // a deque: views into the texts stay valid when files are added
};

}  // namespace mesh
