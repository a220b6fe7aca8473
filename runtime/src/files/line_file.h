// line_file.h: a text as an array [lines, length]. An entry is a line's bytes or a tokenizer's pieces of it, `start`
// before them and `end` after them where they are given, filled up with `pad`. Of what is longer, the first `length`
// numbers.
#pragma once
#include <memory>
#include <optional>

#include "files/file_bytes.h"
#include "meshrt/data.h"

namespace meshrt {

/// Numbers that stand beside those of a line.
struct LineMarks {
  int64_t pad = 0;
  std::optional<int64_t> start, end;
};

class LineFile final : public NumberArray {
 public:
  /// Lines end with a newline, before which a carriage return does not count; after the last one it may lack.
  /// `tokenizer`: path of a SentencePiece model; empty: lines are bytes. Throws Failure (Cause::data) when a file
  /// cannot be read, when a line holds one of the marks, or a character that the tokenizer lacks.
  static std::shared_ptr<const LineFile> open(const std::string& path, const std::string& tokenizer,
                                              const LineMarks& marks, int64_t length);

  /// Whether a line and its marks are no longer than an entry.
  bool fits(int64_t line) const { return numbers_in(line) <= shape_[1]; }

  void require(Type type, std::string_view reader) const override;
  void read(int64_t first, int64_t count, Type type, int64_t bound, std::string_view reader, void* out) const override;

 private:
  struct Line {
    int64_t begin, size;  // numbers: bytes of the file, or pieces
  };
  LineFile(const std::string& path, const std::string& tokenizer, const LineMarks& marks, int64_t length);
  void find_lines();
  void read_pieces(const std::string& tokenizer);
  void check_marks() const;
  int64_t content(int64_t place) const { return file_ ? static_cast<int64_t>(file_->bytes()[place]) : pieces_[place]; }
  int64_t numbers_in(int64_t line) const { return before_ + lines_[line].size + after_; }
  int64_t number_at(int64_t line, int64_t position) const;
  void read_part(int64_t line, int64_t position, int64_t count, Type type, int64_t bound, std::string_view reader,
                 std::byte* out) const;

  std::shared_ptr<const FileBytes> file_;  // none where lines are pieces
  std::vector<int32_t> pieces_;            // of all lines
  LineMarks marks_;
  int64_t before_ = 0, after_ = 0;  // numbers before and after those of a line
  std::vector<Line> lines_;
};

}  // namespace meshrt
