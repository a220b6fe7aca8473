#include "frontend/render.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/utf8.h"

namespace mesh {

namespace {

enum class Style { plain, bold, error, warning, frame, help };

std::string paint(std::string_view text, Style style, bool colour) {
  if (!colour || style == Style::plain || text.empty()) return std::string(text);
  const char* code = "1";
  if (style == Style::error) code = "1;31";
  if (style == Style::warning) code = "1;33";
  if (style == Style::frame) code = "1;34";
  if (style == Style::help) code = "1;36";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

// A line of source as it shows: tabs expanded, control characters and stray bytes replaced.
struct ShownLine {
  std::string text;
  std::vector<int> columns;  // of each byte of the source line, and of its end
};

ShownLine show(std::string_view line) {
  ShownLine shown;
  int column = 0;
  for (std::size_t at = 0; at < line.size();) {
    const Character character = decode_utf8(line, at);
    shown.columns.insert(shown.columns.end(), character.bytes, column);
    if (line[at] == '\t') {
      const int spaces = 4 - column % 4;
      shown.text.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
    } else if (!character.valid || character.value < 0x20) {
      shown.text += encode_utf8(0xFFFD);
      column += 1;
    } else {
      shown.text += line.substr(at, character.bytes);
      column += display_width(character.value);
    }
    at += character.bytes;
  }
  shown.columns.push_back(column);
  return shown;
}

// The columns [begin, end) of a shown line.
std::string cut(const std::string& text, int begin, int end) {
  std::string result;
  int column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = decode_utf8(text, at);
    if (column >= begin && column < end) result += text.substr(at, character.bytes);
    column += display_width(character.value);
    at += character.bytes;
  }
  return result;
}

// The part of a label that lies on one line, in columns.
struct Mark {
  int begin = 0, end = 0;
  bool primary = false;
  std::string text;
};

class Snippet {
 public:
  Snippet(const Diagnostic& diagnostic, const SourceMap& sources, const RenderOptions& options)
      : diagnostic_(diagnostic), sources_(sources), options_(options) {}

  std::string render() {
    header();
    gutter_ = 0;
    for (const Label& label : diagnostic_.labels) {
      if (label.span.known()) gutter_ = std::max(gutter_, std::to_string(sources_.end(label.span).line).size());
    }
    std::vector<FileId> files;
    for (const Label& label : diagnostic_.labels) {
      const FileId file = label.span.file;
      if (file != 0 && std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
    }
    for (const FileId file : files) render_file(file, file == files.front());
    footer(diagnostic_.notes, "note", Style::bold);
    footer(diagnostic_.helps, "help", Style::help);
    return std::move(out_);
  }

 private:
  Style level_style() const { return diagnostic_.level == Level::error ? Style::error : Style::warning; }
  std::string painted(std::string_view text, Style style) const { return paint(text, style, options_.colour); }

  void header() {
    const char* level = diagnostic_.level == Level::error ? "error" : "warning";
    const std::string code = diagnostic_.code.empty() ? "" : fmt::format("[{}]", diagnostic_.code);
    out_ += painted(level + code, level_style()) + painted(": " + diagnostic_.message, Style::bold) + "\n";
  }

  void footer(const std::vector<std::string>& texts, const char* kind, Style style) {
    for (const std::string& text : texts) {
      std::string indented;
      for (const char c : text) {
        indented += c;
        if (c == '\n') indented.append(gutter_ + 9, ' ');
      }
      out_ += std::string(gutter_ + 1, ' ') + painted("=", Style::frame) + " " +
              painted(fmt::format("{}:", kind), style) + " " + indented + "\n";
    }
  }

  void bar(std::string_view number, std::string_view rest) {
    const std::string margin = fmt::format("{:<{}} |", number, gutter_);
    out_ += painted(margin, Style::frame);
    if (!rest.empty()) out_ += fmt::format(" {}", rest);
    out_ += "\n";
  }

  void render_file(FileId file, bool first) {
    const auto here = std::find_if(diagnostic_.labels.begin(), diagnostic_.labels.end(),
                                   [&](const Label& label) { return label.span.file == file; });
    const Position at = sources_.begin(here->span);
    out_ += std::string(gutter_, ' ') + painted(first ? "-->" : ":::", Style::frame) +
            fmt::format(" {}:{}:{}\n", sources_.name(file), at.line, at.column);

    std::map<std::uint32_t, std::vector<Mark>> marks;  // by line
    for (const Label& label : diagnostic_.labels) {
      if (label.span.file == file) add_marks(label, marks);
    }
    std::uint32_t previous = 0;
    for (const auto& [line, line_marks] : marks) {
      if (previous != 0 && line == previous + 2) {
        bar(std::to_string(previous + 1), show(sources_.line_text(file, previous + 1)).text);
      } else if (previous != 0 && line > previous + 2) {
        out_ += painted("...", Style::frame) + "\n";
      }
      render_line(file, line, line_marks);
      previous = line;
    }
  }

  // A span over several lines is marked on its first and its last, and has its text on the last.
  void add_marks(const Label& label, std::map<std::uint32_t, std::vector<Mark>>& marks) const {
    const FileId file = label.span.file;
    const std::uint32_t first = sources_.begin(label.span).line;
    std::uint32_t last = sources_.end(label.span).line;
    const bool ends_with_line = last > first && sources_.line_begin(file, last) == label.span.end;
    if (ends_with_line) --last;
    const auto column = [&](std::uint32_t line, std::uint32_t offset) {
      const ShownLine shown = show(sources_.line_text(file, line));
      return shown.columns[std::min<std::size_t>(offset - sources_.line_begin(file, line), shown.columns.size() - 1)];
    };
    const auto indent = [&](std::uint32_t line) {
      const std::size_t spaces = sources_.line_text(file, line).find_first_not_of(" \t");
      return sources_.line_begin(file, line) +
             (spaces == std::string_view::npos ? 0 : static_cast<std::uint32_t>(spaces));
    };
    const auto line_end = [&](std::uint32_t line) {
      return sources_.line_begin(file, line) + static_cast<std::uint32_t>(sources_.line_text(file, line).size());
    };
    const std::uint32_t end = ends_with_line ? line_end(last) : label.span.end;
    const auto add = [&](std::uint32_t line, std::uint32_t begin_offset, std::uint32_t end_offset, std::string text) {
      const int begin = column(line, begin_offset);
      marks[line].push_back(Mark{begin, std::max(column(line, end_offset), begin + 1), label.primary, std::move(text)});
    };
    if (first == last) {
      add(first, label.span.begin, end, label.text);
    } else {
      add(first, label.span.begin, line_end(first), "");
      add(last, indent(last), end, label.text);
    }
  }

  void render_line(FileId file, std::uint32_t line, std::vector<Mark> marks) {
    ShownLine shown = show(sources_.line_text(file, line));
    const int width = shown.columns.back();
    if (width > options_.width) {
      // Keep the beginning if the marks lie in it, else move to where they are.
      const int first =
          std::min_element(marks.begin(), marks.end(), [](auto& a, auto& b) { return a.begin < b.begin; })->begin;
      const int begin = first < options_.width / 2 ? 0 : first - 10;
      const int end = std::min(width, begin + options_.width);
      const int lead = begin > 0 ? 4 : 0;
      shown.text =
          fmt::format("{}{}{}", begin > 0 ? "... " : "", cut(shown.text, begin, end), end < width ? " ..." : "");
      for (Mark& mark : marks) {
        mark.begin = std::clamp(mark.begin, begin, end) - begin + lead;
        mark.end = std::max(mark.begin + 1, std::clamp(mark.end, begin, end) - begin + lead);
      }
    }
    bar(std::to_string(line), shown.text);
    render_marks(std::move(marks));
  }

  // Right to left: the last text stands behind its mark, the others hang below theirs.
  void render_marks(std::vector<Mark> marks) {
    std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.begin < b.begin; });
    Canvas canvas;
    for (const Mark& mark : marks) {
      if (!mark.primary) canvas.fill(mark.begin, mark.end, '-', Style::frame);
    }
    for (const Mark& mark : marks) {
      if (mark.primary) canvas.fill(mark.begin, mark.end, '^', level_style());
    }
    const auto style = [&](const Mark& mark) { return mark.primary ? level_style() : Style::frame; };
    const bool last_ends =
        std::all_of(marks.begin(), marks.end(), [&](const Mark& mark) { return mark.end <= marks.back().end; });
    if (last_ends) {
      canvas.write(marks.back().end + 1, marks.back().text, style(marks.back()));
      marks.pop_back();
    }
    bar("", canvas.text(options_.colour));
    marks.erase(std::remove_if(marks.begin(), marks.end(), [](const Mark& mark) { return mark.text.empty(); }),
                marks.end());
    while (!marks.empty()) {
      Canvas line;
      const Mark mark = marks.back();
      marks.pop_back();
      for (const Mark& other : marks) {
        if (other.begin < mark.begin) line.write(other.begin, "|", style(other));
      }
      line.write(mark.begin, mark.text, style(mark));
      bar("", line.text(options_.colour));
    }
  }

  // One line of cells with styles; what is written later covers what was there.
  class Canvas {
   public:
    void fill(int begin, int end, char with, Style style) {
      reserve(end);
      for (int at = begin; at < end; ++at) cells_[static_cast<std::size_t>(at)] = {std::string(1, with), style};
    }
    // One cell for the whole text: nothing is written to the right of it.
    void write(int at, std::string_view text, Style style) {
      if (text.empty()) return;
      reserve(at + 1);
      cells_[static_cast<std::size_t>(at)] = {std::string(text), style};
    }
    std::string text(bool colour) const {
      std::string result;
      for (std::size_t at = 0; at < cells_.size();) {
        std::size_t end = at;
        std::string run;
        while (end < cells_.size() && cells_[end].second == cells_[at].second) run += cells_[end++].first;
        result += paint(run, cells_[at].second, colour);
        at = end;
      }
      return result;
    }

   private:
    void reserve(int size) {
      if (cells_.size() < static_cast<std::size_t>(size))
        cells_.resize(static_cast<std::size_t>(size), {" ", Style::plain});
    }
    std::vector<std::pair<std::string, Style>> cells_;
  };

  const Diagnostic& diagnostic_;
  const SourceMap& sources_;
  const RenderOptions& options_;
  std::string out_;
  std::size_t gutter_ = 0;
};

}  // namespace

std::string render_text(const Diagnostic& diagnostic, const SourceMap& sources, const RenderOptions& options) {
  return Snippet(diagnostic, sources, options).render();
}

std::string render_all(const DiagnosticSink& sink, const SourceMap& sources, const RenderOptions& options) {
  std::string out;
  std::size_t errors = 0, left_out = 0;
  for (const Diagnostic& diagnostic : sink.diagnostics()) {
    if (diagnostic.level == Level::error && ++errors > options.error_limit) {
      ++left_out;
      continue;
    }
    out += render_text(diagnostic, sources, options) + "\n";
  }
  if (left_out > 0) out += fmt::format("... and {} more error{}\n", left_out, left_out == 1 ? "" : "s");
  return out;
}

}  // namespace mesh
