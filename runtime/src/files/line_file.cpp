#include "files/line_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "files/elements.h"
#include "meshrt/failure.h"
#include "meshrt/tokenizer.h"

namespace meshrt {

std::shared_ptr<const LineFile> LineFile::open(const std::string& path, const std::string& tokenizer,
                                               const LineMarks& marks, int64_t length) {
  return std::shared_ptr<const LineFile>(new LineFile(path, tokenizer, marks, length));
}

LineFile::LineFile(const std::string& path, const std::string& tokenizer, const LineMarks& marks, int64_t length)
    : file_(FileBytes::open(path)), marks_(marks), before_(marks.start ? 1 : 0), after_(marks.end ? 1 : 0) {
  path_ = path;
  find_lines();
  if (!tokenizer.empty()) read_pieces(tokenizer);
  check_marks();
  shape_ = {static_cast<int64_t>(lines_.size()), length};
}

void LineFile::find_lines() {
  const auto bytes = file_->bytes();
  const auto all = static_cast<int64_t>(bytes.size());
  for (int64_t begin = 0; begin < all;) {
    const void* newline = std::memchr(&bytes[begin], '\n', all - begin);
    const int64_t next = newline == nullptr ? all : static_cast<const std::byte*>(newline) - bytes.data() + 1;
    int64_t size = next - begin - (newline == nullptr ? 0 : 1);
    if (size > 0 && bytes[begin + size - 1] == std::byte{'\r'}) --size;
    lines_.push_back({begin, size});
    begin = next;
  }
}

// The text itself is not needed any more.
void LineFile::read_pieces(const std::string& tokenizer) {
  const auto model = Tokenizer::open(tokenizer);
  const auto* text = reinterpret_cast<const char*>(file_->bytes().data());
  for (size_t line = 0; line < lines_.size(); ++line) {
    const auto begin = static_cast<int64_t>(pieces_.size());
    const std::string_view content(text + lines_[line].begin, static_cast<size_t>(lines_[line].size));
    if (const auto lacking = model->encode(content, pieces_))
      throw model->lacks(*lacking, fmt::format("`{}`, line {}", path_, line + 1), "; or leave the line out");
    lines_[line] = {begin, static_cast<int64_t>(pieces_.size()) - begin};
  }
  file_.reset();
}

// A text that holds what stands for its padding or its ends would be read as another text.
void LineFile::check_marks() const {
  const auto check = [&](const char* name, std::optional<int64_t> mark) {
    if (!mark || (file_ && *mark > 255)) return;
    for (size_t line = 0; line < lines_.size(); ++line)
      for (int64_t i = 0; i < lines_[line].size; ++i)
        if (content(lines_[line].begin + i) == *mark)
          throw Failure(Cause::data, fmt::format("`{}`, line {} holds the {} {}, which is its `{}`", path_, line + 1,
                                                 file_ ? "byte" : "piece", *mark, name));
  };
  check("pad", marks_.pad);
  check("start", marks_.start);
  check("end", marks_.end);
}

void LineFile::require(Type, std::string_view) const {}  // bytes become any type

int64_t LineFile::number_at(int64_t line, int64_t position) const {
  const auto [begin, size] = lines_[line];
  if (position < before_) return *marks_.start;
  position -= before_;
  if (position < size) return content(begin + position);
  return position == size && after_ > 0 ? *marks_.end : marks_.pad;
}

void LineFile::read(int64_t first, int64_t count, Type type, int64_t bound, std::string_view reader, void* out) const {
  auto* to = static_cast<std::byte*>(out);
  while (count > 0) {
    const int64_t line = first / shape_[1], position = first % shape_[1], part = std::min(count, shape_[1] - position);
    read_part(line, position, part, type, bound, reader, to);
    first += part;
    count -= part;
    to += part * static_cast<int64_t>(size_of(type));
  }
}

void LineFile::read_part(int64_t line, int64_t position, int64_t count, Type type, int64_t bound,
                         std::string_view reader, std::byte* out) const {
  std::vector<int64_t> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = number_at(line, position + i);
  const auto misfit =
      convert(reinterpret_cast<const std::byte*>(numbers.data()), {Number::i64, false}, count, type, bound, out);
  if (!misfit) return;
  const std::string range = bound >= 0 ? fmt::format("an index below {}", bound) : reach_of(type);
  throw Failure(Cause::data, fmt::format("`{}`, line {}: number {} is {}, but {} takes {}", path_, line + 1,
                                         position + misfit->index, misfit->number, reader, range));
}

}  // namespace meshrt
