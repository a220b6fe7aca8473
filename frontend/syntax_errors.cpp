#include "frontend/syntax_errors.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "frontend/suggest.h"

namespace mesh {

namespace {

using Words = std::vector<std::string>;

const Words declaration_words = {"import", "language", "dim",    "const",     "require", "block",
                                 "model",  "mesh",     "layout", "precision", "budget"};
const Words statement_words = {"input",  "output", "param",  "state",  "dim",      "require",
                               "metric", "repeat", "manual", "return", "minimize", "generate"};
const Words rule_words = {"params", "grads", "optimizer", "activations", "state",
                          "tensor", "in",    "replicate", "auto",        "closed"};
const Words reserved_words = {"and", "as", "false", "none", "not", "or", "repeat", "return", "true"};
const Words operators = {"'+'",  "'-'", "'*'", "'/'", "'%'",   "'^'",  "'=='", "'!='", "'<='",
                         "'>='", "'<'", "'>'", "'['", "'and'", "'or'", "'('",  "'.'"};

bool contains(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <std::size_t n>
Words words(const std::array<std::string_view, n>& texts) {
  return {texts.begin(), texts.end()};
}

std::string enumerate(const Words& words) {
  std::string text;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (at > 0) text += at + 1 == words.size() ? " or " : ", ";
    text += words[at];
  }
  return text;
}

class Fault {
 public:
  Fault(const SyntaxFault& fault, DiagnosticSink& sink) : fault_(fault), sink_(sink), found_(fault.tokens[fault.at]) {}

  void report() {
    if (half_a_part() || foreign_operator() || comma_of_rules() || unless_behind_attributes() || method() ||
        chosen_by_if() || size_as_dim() || unfinished_line() || unknown_rule() || missing_arrow() || reserved_name() ||
        wrong_place() || equals_sign() || unknown_keyword() || lone_expression() || missing_sign()) {
      return;
    }
    general();
  }

 private:
  const Token& token(std::size_t at) const { return fault_.tokens[std::min(at, fault_.tokens.size() - 1)]; }
  const Token& first() const { return token(fault_.first); }
  const Token& previous() const { return token(fault_.at > 0 ? fault_.at - 1 : 0); }
  bool expects(std::string_view what) const { return contains(fault_.expected, what); }
  bool starts_value(const Token& token) const {
    return token.kind == TokenKind::word || token.kind == TokenKind::number || token.kind == TokenKind::string;
  }
  bool adjacent(const Token& a, const Token& b) const { return a.span.end == b.span.begin; }

  // Whether a line ends between two neighbours, although the statement goes on.
  static bool line_between(const Token& a, const Token& b) {
    if (a.type == 0 || b.type == 0) return false;  // put in: not part of the text
    const char* end = a.text.data() + a.text.size();
    return std::string_view(end, static_cast<std::size_t>(b.text.data() - end)).find('\n') != std::string_view::npos;
  }

  // The bracket that the token stands in, looking back to the beginning of the statement.
  std::string_view inside() const {
    int depth = 0;
    for (std::size_t at = fault_.at; at-- > fault_.first;) {
      const Token& token = fault_.tokens[at];
      if (token.is(")") || token.is("]")) ++depth;
      if ((token.is("(") || token.is("[")) && depth-- == 0) return token.text;
    }
    return {};
  }

  // A newline shows as the place behind the last token, not as a line.
  Span found_span() const {
    const bool wide = found_.kind == TokenKind::newline || found_.kind == TokenKind::end;
    return wide ? Span{found_.span.file, previous().span.end, previous().span.end} : found_.span;
  }

  std::string found_text() const {
    if (found_.kind == TokenKind::newline) return "the end of the line";
    if (found_.kind == TokenKind::end) return "the end of the file";
    return fmt::format("`{}`", found_.text);
  }

  // `x := y`, `x += y`, `x ** y`, `/* ... */`
  bool foreign_operator() {
    if (found_.is("=") && previous().is(":") && adjacent(previous(), found_)) {
      const Span span = cover(previous().span, found_.span);
      sink_.error("E0107", span, "unknown operator `:=`").here("did you mean `=`?").fix(span, "=");
      return true;
    }
    const bool arithmetic = previous().is("+") || previous().is("-") || previous().is("*") || previous().is("/");
    if (found_.is("=") && arithmetic && adjacent(previous(), found_)) {
      return assignment_operator(previous(), found_);
    }
    const Token& next = token(fault_.at + 1);
    const bool starts_one = found_.is("+") || found_.is("-") || found_.is("*") || found_.is("/");
    if (starts_one && next.is("=") && adjacent(found_, next)) return assignment_operator(found_, next);
    if (found_.is("**") && fault_.rule != "part") {
      sink_.error("E0107", found_.span, "unknown operator `**`")
          .here("did you mean `^`?")
          .help("a power is written `x ^ 2`")
          .fix(found_.span, "^");
      return true;
    }
    const bool comment = previous().is("/") && found_.is("*") && adjacent(previous(), found_);
    if (comment || (found_.is("/") && next.is("*") && adjacent(found_, next))) {
      sink_
          .error("E0107", comment ? cover(previous().span, found_.span) : cover(found_.span, next.span),
                 "unknown operator `/*`")
          .here("did you mean `//`?")
          .help("a comment starts with `//` and ends with the line");
      return true;
    }
    return false;
  }

  // `batch -> data, hidden -> model`
  bool comma_of_rules() {
    if (fault_.list != "rules" || !found_.is(",")) return false;
    sink_.error("E0101", found_.span, "expected `;` or a new line between two rules, found `,`")
        .here("did you mean `;`?")
        .fix(found_.span, ";");
    return true;
  }

  // `key -> ctx { owns: "zigzag" } unless seq`
  bool unless_behind_attributes() {
    if (!found_.is("unless") || !previous().is("}")) return false;
    sink_.error("E0101", found_.span, "`unless` behind the attributes of a rule")
        .help("what is in braces stands last: `key -> ctx unless seq { owns: \"zigzag\" }`");
    return true;
  }

  // `(x + y).relu()`
  bool method() {
    const Token& name = token(fault_.at + 1);
    if (!found_.is(".") || name.kind != TokenKind::word || (!previous().is(")") && !previous().is("]"))) return false;
    sink_.error("E0101", cover(found_.span, name.span), "values have no methods")
        .help("a function takes its values in parentheses: `{}(...)`", name.text);
    return true;
  }

  // `a if training else b`
  bool chosen_by_if() {
    if (!found_.is("if") || fault_.list != "body" || fault_.at < fault_.first + 2) return false;
    sink_.error("E0101", found_.span, "expected an operator or the end of the statement, found `if`")
        .help("`where(condition, a, b)` chooses");
    return true;
  }

  // `real[20, hidden]`
  bool size_as_dim() {
    if (fault_.rule != "slot" && fault_.rule != "type") return false;
    if (found_.kind != TokenKind::number || (!previous().is("[") && !previous().is(","))) return false;
    sink_.error("E0101", found_.span, "expected a dim, found `{}`", found_.text)
        .here("sizes have names")
        .help("`dim n = {}` declares one: `n` then stands here", found_.text);
    return true;
  }

  bool assignment_operator(const Token& op, const Token& equals) {
    sink_.error("E0107", cover(op.span, equals.span), "unknown operator `{}=`", op.text)
        .help(
            "a name is bound once: give the result another one, `{0}_2 = {0} {1} ...`; only in a `repeat` may `{0} = "
            "{0} {1} ...` go on from turn to turn",
            first().text, op.text);
    return true;
  }

  // `k =` and the next statement on the next line, which is read as the rest of this one; `k =` and a `}`
  bool unfinished_line() {
    static const Words word_operators = {"and", "or", "not"};
    const bool open_end = !starts_value(previous()) || contains(word_operators, previous().text);
    if (fault_.at > fault_.first && line_between(previous(), found_) && inside().empty() && open_end) {
      return unfinished_after(previous());
    }
    if ((!found_.is("=") && !found_.is("<-") && !found_.is("->")) || fault_.at < fault_.first + 3) return false;
    const Token& before = token(fault_.at - 2);
    if (previous().kind != TokenKind::word || before.kind != TokenKind::symbol) return false;
    return line_between(before, previous()) && unfinished_after(before);
  }

  bool unfinished_after(const Token& last) {
    const Span place{last.span.file, last.span.end, last.span.end};
    sink_.error("E0101", place, "unfinished statement: the line ends after `{}`", last.text)
        .here("so the next line belongs to this statement");
    return true;
  }

  // `batch > data`, `batch = data`, `batch => data` in a layout
  bool missing_arrow() {
    if (fault_.list != "rules" || !expects("'->'")) return false;
    static const Words meant = {">", "=", ":", "<-", "-", ">=", "<", "as", "over", "on"};
    if (!contains(meant, found_.text)) return false;
    const Token& next = token(fault_.at + 1);
    const bool two = (found_.is("=") || found_.is("-")) && next.is(">");
    const Span span = two ? cover(found_.span, next.span) : found_.span;
    sink_
        .error("E0106", span, "expected `->`, found `{}`",
               two ? std::string(found_.text) + ">" : std::string(found_.text))
        .here("did you mean `->`?")
        .note("a rule is written `dims -> axes`")
        .fix(span, "->");
    return true;
  }

  bool reserved_name() {
    if (!expects("ID") || !contains(reserved_words, found_.text) || found_.kind != TokenKind::word) return false;
    reserved(found_).here("expected {}", name_phrase());
    return true;
  }

  DiagnosticBuilder reserved(const Token& word) {
    return sink_.error("E0113", word.span, "`{}` is a reserved word", word.text)
        .note("the reserved words are and, as, false, none, not, or, repeat, return, true");
  }

  // A declaration inside of a body, a statement outside.
  bool wrong_place() {
    const bool named = token(fault_.first + 1).kind == TokenKind::word;
    if (fault_.list == "body" && named && first().text != "dim" && first().text != "require" &&
        contains(declaration_words, first().text)) {
      sink_.error("E0112", first().span, "`{}` cannot stand in a model or a block", first().text)
          .here("a declaration")
          .help("move it out of the `{ }`, to the top level of the file");
      return true;
    }
    if (fault_.list != "file" || fault_.at > fault_.first + 1) return false;
    if (contains(statement_words, first().text) && (named || first().is("return"))) {
      sink_.error("E0112", first().span, "`{}` cannot stand outside of a model or a block", first().text)
          .help("move it into a `model Name { ... }` or a `block Name(...) -> type { ... }`");
      return true;
    }
    if (first().kind != TokenKind::word || contains(declaration_words, first().text)) return false;
    const Token& second = token(fault_.first + 1);
    if (second.is("->")) {
      sink_.error("E0112", first().span, "a layout rule cannot stand outside of a layout")
          .help("move it into a `layout name on mesh { ... }`");
      return true;
    }
    if (second.is("=") || second.is("<-") || second.is(":")) {
      sink_.error("E0112", first().span, "`{}` cannot be computed outside of a model or a block", first().text)
          .help("a size is declared by `dim {} = ...`, a scalar by `const {} = ...`", first().text, first().text);
      return true;
    }
    return false;
  }

  // `normal(std = 0.02)`, `require a = b`, `dim x == 4`
  bool equals_sign() {
    if (found_.is("==") && expects("'='")) {
      sink_.error("E0101", found_.span, "expected `=`, found `==`").here("did you mean `=`?").fix(found_.span, "=");
      return true;
    }
    if (!found_.is("=")) return false;
    if (fault_.at == fault_.first + 1 && contains(reserved_words, first().text)) {
      reserved(first()).here("this names no value");
      return true;
    }
    if (line_between(previous(), found_)) {
      sink_.error("E0101", found_.span, "expected a name before `=`").here("nothing is named");
      return true;
    }
    if (expects("':'") || (inside() == "(" && previous().kind == TokenKind::word)) {
      sink_.error("E0109", found_.span, "expected `:`, found `=`")
          .here("did you mean `:`?")
          .note(inside() == "(" ? "a named argument is written `name: value`; a comparison is written `==`"
                                : "an attribute is written `name: value`")
          .fix(found_.span, ":");
      return true;
    }
    if (expects("NUMBER")) return false;
    if (fault_.rule == "expr" || fault_.rule == "body" || first().is("require") || first().is("repeat")) {
      sink_.error("E0111", found_.span, "expected an operator, found `=`")
          .here("did you mean `==`?")
          .fix(found_.span, "==");
      return true;
    }
    return false;
  }

  // `dim x 4`, `param w real[a]`, `param w : real[a] zeros`
  bool missing_sign() {
    if (!starts_value(found_) && !found_.is("(")) return false;
    const Span gap{found_.span.file, previous().span.end, previous().span.end};
    const bool initial = first().is("param") && fault_.list == "body" && found_.kind == TokenKind::word &&
                         (previous().is("]") || previous().kind == TokenKind::word) && !expects("':'") &&
                         expects("'}'");
    const bool colon = expects("':'");
    if (!initial && !colon && !expects("'='")) return false;
    const char* sign = colon && !initial ? ":" : "=";
    sink_.error(colon && !initial ? "E0109" : "E0108", found_.span, "missing `{}` before {}", sign, found_text())
        .here("expected `{}`", sign)
        .fix(gap, std::string(" ") + sign);
    return true;
  }

  // `modle Gpt {`, `parm w : real[a]`, `for layer { ... }`
  bool unknown_keyword() {
    const bool in_file = fault_.list == "file";
    if ((!in_file && fault_.list != "body") || first().kind != TokenKind::word || fault_.at > fault_.first + 1)
      return false;
    if (contains(in_file ? declaration_words : statement_words, first().text)) return false;
    if (!in_file && found_.kind != TokenKind::word) return false;

    struct Foreign {
      Words words;
      const char* help;
    };
    static const std::vector<Foreign> foreign = {
        {words(foreign_loops), "a loop is written `repeat dim { ... }`, or `repeat dim until condition { ... }`"},
        {{"if", "else"}, "`where(condition, a, b)` chooses element by element"},
        {words(foreign_functions), "a block is written `block Name(x : real[dim]) -> real[dim] { ... }`"},
        {{"let", "var", "val"}, "a value is written `name = expression`"},
        {{"axis", "axes"}, "axes are declared by `mesh name { data: 4, model: 2 }`"},
    };
    auto error =
        sink_.error("E0110", first().span, "unknown {} `{}`", in_file ? "declaration" : "statement", first().text);
    for (const Foreign& one : foreign) {
      if (contains(one.words, first().text)) {
        error.help(one.help);
        return true;
      }
    }
    if (const auto near = did_you_mean(first().text, in_file ? declaration_words : statement_words)) {
      error.here("did you mean `{}`?", *near).fix(first().span, *near);
    } else if (in_file) {
      error.note("a declaration starts with " + enumerate(declaration_words));
    } else {
      error.help("a value is written `{} = ...`", first().text);
    }
    return true;
  }

  // `optimzer { ... }`, `tensr layer.w { ... }`, `replicated over data` in a layout
  bool unknown_rule() {
    if (fault_.list != "rules" || fault_.at != fault_.first + 1 || line_between(first(), found_)) return false;
    if (first().kind != TokenKind::word || contains(rule_words, first().text)) return false;
    const auto near = did_you_mean(first().text, rule_words);
    if (!found_.is("{") && !(near && found_.kind == TokenKind::word)) return false;
    auto error = sink_.error("E0110", first().span, "unknown layout rule `{}`", first().text);
    if (near) error.here("did you mean `{}`?", *near).fix(first().span, *near);
    else error.note("a rule is written `dims -> axes`, or starts with " + enumerate(rule_words));
    return true;
  }

  // `relu(x)` as a statement
  bool lone_expression() {
    if (fault_.list != "body" || fault_.rule != "statement" || first().kind != TokenKind::word) return false;
    if (contains(statement_words, first().text) || fault_.at > fault_.first + 1) return false;
    if (!found_.ends_statement() && !contains(operators, fmt::format("'{}'", found_.text))) return false;
    sink_.error("E0114", first().span, "an expression alone is not a statement")
        .help("name it, `name = ...`, or give it back, `return ...`");
    return true;
  }

  // `w*`, `layer.*norm` as patterns
  bool half_a_part() {
    const bool pattern = fault_.list == "groups" ||
                         (fault_.list == "rules" && (first().is("tensor") || first().is("in"))) ||
                         (first().is("minimize") && fault_.at > fault_.first + 2);
    const auto star = [](const Token& one) { return one.is("*") || one.is("**"); };
    const bool pair = (star(found_) && previous().kind == TokenKind::word) ||
                      (star(previous()) && (star(found_) || found_.kind == TokenKind::word));
    if (!pattern || !pair || !adjacent(previous(), found_)) return false;
    sink_.error("E0101", cover(previous().span, found_.span), "`*` stands for a whole part of a path")
        .here("part of a name cannot be left open")
        .note("`layer.*.gain`: the `gain` of everything in `layer`; `**` stands for any number of parts")
        .help("list the names: `w1, w2`");
    return true;
  }

  std::string name_phrase() const {
    if (fault_.rule == "type" || fault_.rule == "results") return "a type";
    if (fault_.rule == "item" || fault_.rule == "pick" || fault_.rule == "slot" || fault_.rule == "window")
      return "a dim";
    if (fault_.rule == "glob" || fault_.rule == "part") return "a path or a pattern";
    if (fault_.rule == "target") return "an axis or `none`";
    return "a name";
  }

  // The expected tokens as people call them.
  Words phrases() const {
    Words result;
    const bool value = expects("NUMBER") && expects("ID");
    const bool name = expects("ID");
    if (value && (expects("'('") || expects("STRING"))) {
      result.emplace_back("an expression");
    } else if (name) {
      result.push_back(name_phrase());
    }
    bool operator_too = false;
    for (const std::string& one : fault_.expected) {
      const bool quoted = one.front() == '\'';
      if (one == "ID" || (name && (quoted && std::isalpha(static_cast<unsigned char>(one[1])) != 0))) continue;
      if (value && (one == "NUMBER" || one == "STRING" || one == "'('" || one == "'-'")) continue;
      if (result.empty() || one != "'...'") {
        if (one == "NL" || one == "';'" || one == "EOF" || (fault_.rule == fault_.list && one == "'}'")) {
          if (!contains(result, "the end of the statement")) result.emplace_back("the end of the statement");
        } else if (contains(operators, one) && (expects("'+'") || expects("'*'"))) {
          operator_too = true;
        } else if (one == "NUMBER") {
          result.emplace_back("a number");
        } else if (one == "STRING") {
          result.emplace_back("a string");
        } else {
          result.push_back(quoted ? fmt::format("`{}`", one.substr(1, one.size() - 2)) : one);
        }
      }
    }
    std::stable_partition(result.begin(), result.end(), [](const std::string& one) { return one == "`,`"; });
    if (operator_too && result.size() <= 1 && !contains(result, "an expression"))
      result.insert(result.begin(), "an operator");
    return result;
  }

  void general() {
    static const std::vector<std::pair<std::string, std::string>> elements = {{"file", "a declaration"},
                                                                              {"body", "a statement"},
                                                                              {"rules", "a layout rule"},
                                                                              {"limits", "a limit"},
                                                                              {"groups", "a pattern of parameters"}};
    Words expected = phrases();
    if (fault_.at == fault_.first) {
      for (const auto& [list, element] : elements) {
        if (list == fault_.list) expected = {element};
      }
    }
    if (expected.empty() || expected.size() > 4) {
      const std::string found = found_text();
      const bool end = found_.kind == TokenKind::newline || found_.kind == TokenKind::end;
      sink_.error("E0101", found_span(), "unexpected {}", end ? found.substr(4) : found).here("does not fit here");
      return;
    }
    auto error = sink_.error("E0101", found_span(), "expected {}, found {}", enumerate(expected), found_text());
    error.here("expected {}", enumerate(expected));
    if (first().is("block") && expects("'->'")) {
      error.help("a block says what it returns: `block Name(x : real[dim]) -> real[dim] { ... }`");
    }
  }

  const SyntaxFault& fault_;
  DiagnosticSink& sink_;
  const Token& found_;
};

}  // namespace

void report_syntax_fault(const SyntaxFault& fault, DiagnosticSink& sink) { Fault(fault, sink).report(); }

}  // namespace mesh
