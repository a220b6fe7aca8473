// What the compiler tells its user: errors, warnings and lints, with the places that they are about.
//
// A pass reports into a DiagnosticSink and goes on:
//
//   sink.error("E0301", use, "cannot contract over `{}`: `{}` does not have it", dim, name)
//       .here("needs `{}`", dim)                    // the text under the primary span
//       .label(other, "f32[ffn, hidden]")           // another place that belongs to the story
//       .note("the operands share no dim, so there is nothing to contract")
//       .help("`h` may be missing the projection to `ffn`");
//
// Style: the message is lower-case, without a full stop, code in backticks, and stands alone; it says what is wrong,
// only `help` says what to do. One mistake gives one error. A text without arguments is taken as it is, braces too.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/source.h"

namespace mesh {

enum class Level { warning, error };

// What to do with a lint: say nothing, warn, or make it an error (-A, -W, -D on the command line).
enum class LintLevel { allow, warn, deny };

struct Label {
  Span span;
  std::string text;
  bool primary = false;
};

// A replacement that an editor can apply: `span` becomes `text`.
struct Fix {
  Span span;
  std::string text;
};

struct Diagnostic {
  Level level = Level::error;
  std::string code;  // "E0301", or the name of a lint
  std::string message;
  std::vector<Label> labels;  // the first is the primary one; it may have an unknown span (a mistake in no file)
  std::vector<std::string> notes;
  std::vector<std::string> helps;
  std::vector<Fix> fixes;
  std::vector<Fix> alternatives;  // each would do alone; whoever compiles says in `helps` what each costs

  Span span() const { return labels.empty() ? Span{} : labels.front().span; }
};

// A lint has a name, a level unless the user sets another, and a sentence for `--help`.
struct Lint {
  std::string_view name;
  LintLevel level;
  std::string_view meaning;
};

// Every lint of the compiler, sorted by name.
const std::vector<Lint>& known_lints();

// Adds to the diagnostic just reported. Harmless when that was an allowed lint. Use it in the same statement only.
class DiagnosticBuilder {
 public:
  explicit DiagnosticBuilder(Diagnostic* diagnostic) : diagnostic_(diagnostic) {}

  // The text of the primary span.
  DiagnosticBuilder& here(std::string text);
  // A secondary place with its text; unknown spans are left out.
  DiagnosticBuilder& label(Span span, std::string text);
  DiagnosticBuilder& note(std::string text);
  DiagnosticBuilder& help(std::string text);
  DiagnosticBuilder& fix(Span span, std::string replacement);
  DiagnosticBuilder& alternative(Span span, std::string replacement);

  template <class First, class... Rest>
  DiagnosticBuilder& here(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    return here(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  DiagnosticBuilder& label(Span span, fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    return label(span, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  DiagnosticBuilder& note(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    return note(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  DiagnosticBuilder& help(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    return help(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

 private:
  Diagnostic* diagnostic_;  // null: an allowed lint
};

class DiagnosticSink {
 public:
  DiagnosticBuilder error(std::string code, Span span, std::string message);
  DiagnosticBuilder warning(std::string code, Span span, std::string message);
  // Reports under the lint's name at the level that is set for it. An unknown name throws std::logic_error.
  DiagnosticBuilder lint(std::string_view name, Span span, std::string message);

  template <class First, class... Rest>
  DiagnosticBuilder error(std::string code, Span span, fmt::format_string<First, Rest...> format, First&& first,
                          Rest&&... rest) {
    return error(std::move(code), span, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  DiagnosticBuilder warning(std::string code, Span span, fmt::format_string<First, Rest...> format, First&& first,
                            Rest&&... rest) {
    return warning(std::move(code), span, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  DiagnosticBuilder lint(std::string_view name, Span span, fmt::format_string<First, Rest...> format, First&& first,
                         Rest&&... rest) {
    return lint(name, span, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

  // Adds a diagnostic that was built elsewhere.
  void add(Diagnostic diagnostic);

  // False when there is no such lint.
  bool set_lint_level(std::string_view name, LintLevel level);
  LintLevel lint_level(std::string_view name) const;

  bool has_errors() const { return error_count() > 0; }
  std::size_t error_count() const;

  // Everything reported so far: by file and position, those without a position first, duplicates dropped.
  std::vector<Diagnostic> diagnostics() const;

 private:
  DiagnosticBuilder report(Level level, std::string code, Span span, std::string message);

  std::deque<Diagnostic> reported_;  // a deque: builders keep pointers into it
  std::map<std::string, LintLevel, std::less<>> lint_levels_;
};

}  // namespace mesh
