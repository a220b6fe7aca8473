#include "files/run_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshrt {

namespace {

std::string line_of(const std::string& text, int line) {
  size_t begin = 0;
  for (int n = 1; n < line && begin != std::string::npos; ++n) {
    begin = text.find('\n', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (begin == std::string::npos || begin >= text.size()) return "";
  std::string result = text.substr(begin, text.find('\n', begin) - begin);
  if (result.ends_with('\r')) result.pop_back();
  std::replace(result.begin(), result.end(), '\t', ' ');
  return result;
}

// Columns that the first `bytes` of UTF-8 take on a screen, one for each character.
size_t columns(const std::string& line, size_t bytes) {
  const auto end = line.begin() + static_cast<std::ptrdiff_t>(std::min(bytes, line.size()));
  return std::count_if(line.begin(), end, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

}  // namespace

int RunText::add(Text text) {
  texts_.push_back(std::move(text));
  return static_cast<int>(texts_.size()) - 1;
}

std::string RunText::render(Mark mark, const std::string& message, const std::string& label) const {
  if (mark.text < 0) return message;
  const Text& text = texts_[mark.text];
  const std::string line = line_of(text.content, mark.line), number = std::to_string(mark.line);
  const size_t before = columns(line, mark.column - 1);
  const size_t width = std::max<size_t>(1, columns(line, mark.column - 1 + mark.length) - before);
  const std::string margin(number.size(), ' ');
  const std::string place = mark.text == 0 ? fmt::format("{}:{}:{}", text.name, mark.line, mark.column) : text.name;
  return fmt::format("{}\n{} --> {}\n{} | {}\n{} | {}{}{}{}", message, margin, place, number, line, margin,
                     std::string(before, ' '), std::string(width, '^'), label.empty() ? "" : " ", label);
}

void RunErrors::add(Mark mark, const std::string& message, const std::string& label) {
  mistakes_.push_back({mark, text_.render(mark, message, label)});
}

bool RunErrors::told(Mark mark) const {
  return std::ranges::any_of(mistakes_, [&](const Mistake& one) { return !(one.mark < mark) && !(mark < one.mark); });
}

void RunErrors::throw_if_any() const {
  if (mistakes_.empty()) return;
  std::vector<Mistake> sorted = mistakes_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Mistake& a, const Mistake& b) { return a.mark < b.mark; });
  std::string all;
  for (const Mistake& mistake : sorted) all += (all.empty() ? "" : "\nerror: ") + mistake.message;
  throw Failure(Cause::data, all);
}

}  // namespace meshrt
