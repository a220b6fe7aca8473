#include "codegen/emit/cpp_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>

#include "codegen/graph/builder.h"

namespace mesh {

namespace {

std::string substitute(std::string_view text, const CppWriter::Values& values) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t dollar = text.find('$', at);
    result += text.substr(at, dollar - at);
    if (dollar == text.npos) break;
    const size_t end = text.find('$', dollar + 1);
    if (end == text.npos) internal_error("a snippet of emitted C++ has a single $: " + std::string(text));
    const std::string_view name = text.substr(dollar + 1, end - dollar - 1);
    if (name.empty()) {
      result += '$';
    } else {
      const auto found = values.find(name);
      if (found == values.end())
        internal_error("a snippet of emitted C++ names $" + std::string(name) + "$, for which there is no value");
      result += found->second;
    }
    at = end + 1;
  }
  return result;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Whether `Name x{...}` or `Name x = {...}` may stand here: a name or a sign before the brace that opens.
bool opens_initializer(std::string_view code, size_t at) {
  if (code[at] != '{' || at == 0) return false;
  return std::isalnum(static_cast<unsigned char>(code[at - 1])) || code[at - 1] == '_' ||
         code.substr(0, at).ends_with(" = ");
}

/// Where the outermost parentheses of a call open that closes at the end of the statement, or the braces of
/// `Name x{...}` or `Name x = {...}`; or nothing.
std::optional<size_t> last_call(std::string_view code) {
  std::vector<size_t> open;
  std::optional<size_t> outermost;
  bool in_string = false;
  for (size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '"' && (i == 0 || code[i - 1] != '\\')) in_string = !in_string;
    if (in_string) continue;
    if (c == '(' || c == '{' || c == '[') open.push_back(i);
    if ((c == ')' || c == '}' || c == ']') && !open.empty()) {
      if (open.size() == 1 && (c == ')' || opens_initializer(code, open.back()))) outermost = open.back();
      open.pop_back();
    }
  }
  return outermost;
}

/// The arguments behind the parenthesis at `open`, each with its comma, the last with everything up to the end.
std::vector<std::string> arguments_of(std::string_view code, size_t open) {
  std::vector<std::string> arguments;
  int depth = 0;
  bool in_string = false;
  size_t begin = open + 1;
  for (size_t i = open + 1; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '"' && code[i - 1] != '\\') in_string = !in_string;
    if (in_string) continue;
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      arguments.emplace_back(code.substr(begin, i + 1 - begin));
      begin = i + 2;
    }
    if (depth < 0) break;
  }
  arguments.emplace_back(code.substr(begin));
  return arguments;
}

constexpr size_t call_indent = 4;  // of what a statement continues with on the next line

struct Filled {
  std::vector<std::string> lines;  // without indentation
  bool fits = true;
};

/// As many arguments on each line as go; the first line begins with `head`, the others stand at `indent`. With
/// `opens_braces`, what stands in braces and is too long for a line of its own has one for each of its parts.
Filled fill(const std::string& head, const std::vector<std::string>& arguments, size_t indent, size_t room,
            bool opens_braces = false) {
  Filled filled;
  std::string now = head;
  size_t column = head.empty() ? indent : 0;
  bool first = true;
  for (const std::string& argument : arguments) {
    if (!first && column + now.size() + 1 + argument.size() > room) {
      filled.lines.push_back(now);
      now.clear();
      column = indent;
      first = true;
    }
    if (opens_braces && first && argument.starts_with('{') && column + now.size() + argument.size() > room) {
      const std::vector<std::string> parts = arguments_of(argument, 0);
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        filled.fits = filled.fits && column + now.size() + 1 + parts[i].size() <= room;
        filled.lines.push_back(now + (i == 0 ? "{" : " ") + parts[i]);
        now.clear();
      }
      now = (parts.size() > 1 ? " " : "{") + parts.back();
      column = indent;
      first = false;
      filled.fits = filled.fits && column + now.size() <= room;
      continue;
    }
    now += (first ? "" : " ") + argument;
    first = false;
    filled.fits = filled.fits && column + now.size() <= room;
  }
  filled.lines.push_back(now);
  return filled;
}

}  // namespace

CppWriter::Block::Block(CppWriter& writer, std::string_view head, std::string_view end) : writer_(writer), end_(end) {
  writer_.line(std::string(head) + " {");
  ++writer_.depth_;
}

CppWriter::Block::~Block() {
  --writer_.depth_;
  writer_.put("}" + end_);
}

void CppWriter::put(std::string_view line, size_t extra) {
  if (!line.empty()) text_.append(2 * static_cast<size_t>(depth_) + extra, ' ');
  // The name of a file may hold line ends: in a comment the rest of it would be code.
  std::ranges::replace_copy_if(
      line, std::back_inserter(text_), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  text_ += '\n';
}

void CppWriter::print(std::string_view snippet, const Values& values) {
  std::vector<std::string_view> lines = lines_of(snippet);
  if (lines.front().find_first_not_of(' ') == std::string_view::npos) lines.erase(lines.begin());
  if (!lines.empty() && lines.back().find_first_not_of(' ') == std::string_view::npos) lines.pop_back();
  size_t margin = std::string_view::npos;
  for (std::string_view line : lines) margin = std::min(margin, line.find_first_not_of(' '));
  for (std::string_view line : lines) put(line.empty() ? line : substitute(line.substr(margin), values));
}

void CppWriter::line(std::string_view code) {
  if (code.size() <= room()) return put(code);
  const std::optional<size_t> open = last_call(code);
  const size_t sign = code.find(" = ");
  const bool lists = open && sign + 3 == *open && code[*open] == '{';  // with which the sign stays
  const size_t assignment = sign < open.value_or(code.size()) && !lists ? sign : code.npos;
  const bool breaks_at_assignment = assignment != code.npos && code.size() - assignment - 3 + call_indent <= room();
  if (open && !breaks_at_assignment) {
    // Arguments below one another behind the parenthesis; below the statement where that takes fewer lines.
    const std::vector<std::string> arguments = arguments_of(code, *open);
    const std::string head(code.substr(0, *open + 1));
    const Filled aligned = fill(head, arguments, head.size(), room());
    Filled hanging = fill("", arguments, call_indent, room());
    if (!aligned.fits && !hanging.fits) hanging = fill("", arguments, call_indent, room(), true);
    hanging.lines.insert(hanging.lines.begin(), head);
    const bool hang = !aligned.fits || hanging.lines.size() < aligned.lines.size();
    if (assignment != code.npos) {  // or behind the parenthesis, on lines of their own
      const std::string call = head.substr(assignment + 3);
      const Filled below = fill(call, arguments, call.size(), room() - call_indent);
      if (below.fits && below.lines.size() + 1 <= (hang ? hanging : aligned).lines.size()) {
        put(code.substr(0, assignment + 2));
        for (size_t i = 0; i < below.lines.size(); ++i) put(below.lines[i], call_indent + (i == 0 ? 0 : call.size()));
        return;
      }
    }
    const Filled& chosen = hang ? hanging : aligned;
    put(chosen.lines.front());
    for (size_t i = 1; i < chosen.lines.size(); ++i) put(chosen.lines[i], hang ? call_indent : head.size());
    return;
  }
  if (assignment != code.npos) {
    put(code.substr(0, assignment + 2));
    return put(code.substr(assignment + 3), call_indent);
  }
  put(code);
}

void CppWriter::declare(const std::string& type, const std::vector<std::string>& names) {
  std::string now = type + " " + names.front();
  for (size_t i = 1; i < names.size(); ++i) {
    if (now.size() + names[i].size() + 3 <= room()) {
      now += ", " + names[i];
      continue;
    }
    put(now + ";");
    now = type + " " + names[i];
  }
  put(now + ";");
}

void CppWriter::blank() {
  if (text_.empty() || text_.ends_with("\n\n") || text_.ends_with("{\n")) return;
  text_ += '\n';
}

void CppWriter::comment(std::string_view text, int hang) {
  std::string now = "//";
  size_t used = 2;  // columns, or what they count as
  // Spaces at the front are kept: they are the reader's structure.
  const size_t front = std::min(text.find_first_not_of(' '), text.size());
  std::string gap = " " + std::string(text.substr(0, front));
  for (size_t at = front; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    std::string word(text.substr(at, end - at));
    constexpr size_t number_width = 10;
    const bool has_unit = word.find(no_break) != word.npos;
    std::ranges::replace(word, no_break, ' ');
    const size_t columns = has_unit ? std::max(number_width, word.size()) : word.size();
    if (used > 2 && used + gap.size() + columns > room()) {
      put(now);
      now = "//";
      used = 2;
      gap = std::string(1 + front + static_cast<size_t>(hang), ' ');
    }
    now += gap + word;
    used += gap.size() + columns;
    at = std::min(text.find_first_not_of(' ', end), text.size());
    gap = std::string(text.substr(end, at - end));
  }
  put(now);
}

void CppWriter::section(std::string_view title) {
  blank();
  std::string line = "// ---- " + std::string(title) + " ";
  if (line.size() < room()) line.append(room() - line.size(), '-');
  put(line);
  blank();
}

void CppWriter::one(std::string_view head, std::string_view statement) {
  last_one_ = {text_.size(), 0, std::string(head), std::string(statement)};
  if (head.size() + 1 + statement.size() <= room()) {
    put(std::string(head) + " " + std::string(statement));
  } else {
    put(head);
    ++depth_;
    line(statement);
    --depth_;
  }
  last_one_.end = text_.size();
}

void CppWriter::directive(std::string_view text) {
  const std::string after = text_.substr(last_one_.end);
  const std::vector<std::string_view> between = lines_of(after);
  const bool only_comments = std::ranges::all_of(between, [](std::string_view line) {
    const size_t first = line.find_first_not_of(' ');
    return first == line.npos || line.substr(first).starts_with("//");
  });
  if (last_one_.end > 0 && only_comments && after.find("//") != std::string::npos) {
    text_.erase(last_one_.begin);
    {
      const Block braces(*this, last_one_.head, "");
      line(last_one_.statement);
    }
    text_ += after;
  }
  last_one_ = {};
  text_ += std::string(text) + "\n";
}

void CppWriter::lambda(std::string_view head, std::string_view statement, std::string_view end) {
  if (short_lambda(head, statement, end)) return;
  const Block body(*this, head, end);
  line(statement);
}

bool CppWriter::short_lambda(std::string_view head, std::string_view statement, std::string_view end) {
  const std::string whole = std::string(head) + " { " + std::string(statement) + " }" + std::string(end);
  if (whole.size() <= room()) {
    put(whole);
    return true;
  }
  // Else on two lines, if that is enough: broken after ` = `, before the lambda, or after the parenthesis.
  const size_t assignment = whole.find(" = "), open = whole.find('(');
  const size_t lambda = whole.find("[&]");
  if (assignment < open && whole.size() - assignment - 3 + call_indent <= room()) {
    put(std::string_view(whole).substr(0, assignment + 2));
    put(std::string_view(whole).substr(assignment + 3), call_indent);
    return true;
  }
  if (lambda > open + 1 && open + 1 + whole.size() - lambda <= room()) {
    put(std::string_view(whole).substr(0, lambda - 1));
    put(std::string_view(whole).substr(lambda), open + 1);
    return true;
  }
  if (whole.size() - open - 1 + call_indent <= room()) {
    put(std::string_view(whole).substr(0, open + 1));
    put(std::string_view(whole).substr(open + 1), call_indent);
    return true;
  }
  return false;
}

void CppWriter::table(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t column = 0;
  bool fits = true;
  for (const auto& [code, comment] : rows)
    if (!comment.empty()) column = std::max(column, code.size() + 2);
  for (const auto& [code, comment] : rows)
    fits = fits && (comment.empty() || column + 3 + comment.size() <= room()) && code.size() <= room();
  for (const auto& [code, comment] : rows) {
    if (!fits || comment.empty()) line(code);
    else put(fmt::format("{:<{}}// {}", code, column, comment));
  }
}

std::string grouped_digits(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = digits.starts_with("-") ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, "'");
  return digits;
}

std::string string_literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(c) < 32) {
      result += ' ';
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace mesh
