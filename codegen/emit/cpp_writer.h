// cpp_writer.h: writes C++ that is formatted as it is written: snippets that look like their output, with `$name$` for
// what varies, indentation by scope, and the one rule for lines that are too long.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh {

class CppWriter {
 public:
  static constexpr size_t width = 120;  // columns, as .clang-format says
  /// A space within a word of a comment: between a number and its unit. Such a word counts as equally wide whatever
  /// the number, so that lines break where they do for other sizes.
  static constexpr char no_break = '\x1f';
  using Values = std::map<std::string, std::string, std::less<>>;

  /// The head with ` {`, one level of indentation, and `}` with `end` where the scope ends.
  class Block {
   public:
    Block(CppWriter& writer, std::string_view head, std::string_view end);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

   private:
    CppWriter& writer_;
    std::string end_;
  };

  explicit CppWriter(int depth = 0) : depth_(depth) {}

  /// The lines of a snippet, each at the present indentation (a first empty line is left out, what all lines have in
  /// common is their margin). `$name$` stands for a value; a name without one is an internal error. `$$` is a dollar.
  void print(std::string_view snippet, const Values& values = {});
  /// One statement or declaration. Where it is too long it breaks after ` = `, between the arguments of its outermost
  /// parentheses, or both, as clang-format would.
  void line(std::string_view code);
  /// Declarations of one type, as many names on a line as go: "float sum, sum_2;".
  void declare(const std::string& type, const std::vector<std::string>& names);
  void blank();
  /// `// text`, wrapped between words; continuations are indented by `hang` more.
  void comment(std::string_view text, int hang = 2);
  /// A line of dashes with a title: `// ---- title ------`.
  void section(std::string_view title);
  [[nodiscard]] Block block(std::string_view head, std::string_view end = "") { return Block(*this, head, end); }
  /// `head statement` on one line where it fits, else the statement on the next line, indented: a `for` or `if` with
  /// one statement and no braces.
  void one(std::string_view head, std::string_view statement);
  /// A call whose last argument is a lambda with one statement: `head { statement }end`, on one line where it fits.
  void lambda(std::string_view head, std::string_view statement, std::string_view end);
  /// The same where one line or two are enough; false: they are not, nothing is written.
  bool short_lambda(std::string_view head, std::string_view statement, std::string_view end);
  /// A line for the preprocessor, which begins in the first column. (clang-format indents a comment between a loop
  /// without braces and a directive as if it were in the loop: such a loop gets braces.)
  void directive(std::string_view text);
  /// Rows of code with an optional trailing comment each, the comments aligned; without comments where a row would be
  /// too long with its own.
  void table(const std::vector<std::pair<std::string, std::string>>& rows);
  /// Lines written by another writer at the same depth.
  void insert(std::string_view lines) { text_ += lines; }

  int depth() const { return depth_; }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  size_t room() const { return width - 2 * static_cast<size_t>(depth_); }
  void put(std::string_view line, size_t extra = 0);

  struct OneLine {  // the last loop without braces: where it stands, and what it is made of
    size_t begin = 0, end = 0;
    std::string head, statement;
  };

  std::string text_;
  int depth_;
  OneLine last_one_;
};

/// "1234567" -> "1'234'567".
std::string grouped_digits(int64_t number);
/// A C++ string literal.
std::string string_literal(std::string_view text);

}  // namespace mesh
