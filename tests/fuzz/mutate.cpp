#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <string_view>

#include "frontend/parse.h"

namespace mesh::fuzz {
namespace {

using Random = std::mt19937_64;
using Texts = std::vector<std::string>;

/// Below `limit`; the same on every standard library.
size_t below(Random& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

template <class T>
const T& one_of(Random& random, const std::vector<T>& all) {
  return all[below(random, all.size())];
}

std::vector<Token> tokens_of(const std::string& text) {
  static SourceMap sources;  // keeps what the tokens' texts point into
  std::vector<Token> tokens = lex(sources.add("mutant", text), sources).tokens;
  std::erase_if(tokens, [](const Token& token) { return token.kind == TokenKind::end; });
  return tokens;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1);
    lines.push_back(text.substr(at, end + 1 - at));
    at = end + 1;
  }
  return lines;
}

// ---- bytes

void change_bytes(std::string& text, Random& random) {
  static constexpr char odd[] = "\0\t\r\n\"\\(){}[]<>*+-=:;,./_0129azZ\x7f\x80\xc3\xa9\xff";
  const size_t at = below(random, text.size() + 1), length = 1 + below(random, 12);
  const char byte = odd[below(random, sizeof odd - 1)];
  switch (below(random, 5)) {
    case 0: text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), byte); break;
    case 1: text.erase(std::min(at, text.size()), length); break;
    case 2: text.insert(at, text.substr(below(random, text.size()), length)); break;
    case 3: text.resize(at); break;
    default:
      if (at < text.size()) text[at] = byte;
  }
}

// ---- lines

void change_lines(std::string& text, const Texts& texts, Random& random) {
  std::vector<std::string> lines = lines_of(text);
  if (lines.empty()) return;
  const auto somewhere = [&] { return lines.begin() + static_cast<std::ptrdiff_t>(below(random, lines.size())); };
  switch (below(random, 4)) {
    case 0: lines.erase(somewhere()); break;
    case 1: {
      const std::string line = *somewhere();
      lines.insert(somewhere(), line);
      break;
    }
    case 2: std::swap(*somewhere(), *somewhere()); break;
    default: {
      const std::vector<std::string> others = lines_of(one_of(random, texts));
      if (!others.empty()) lines.insert(somewhere(), one_of(random, others));
    }
  }
  text.clear();
  for (const std::string& line : lines) text += line;
}

// ---- tokens

std::string number(Random& random) {
  static const std::vector<std::string> numbers = {"0",
                                                   "1",
                                                   "2",
                                                   "3",
                                                   "-1",
                                                   "7",
                                                   "0.5",
                                                   "1e-30",
                                                   "1e18",
                                                   "1e400",
                                                   "2147483648",
                                                   "9223372036854775807",
                                                   "9223372036854775808",
                                                   "99999999999999999999",
                                                   "1_000_000_007",
                                                   "4e9",
                                                   "0.1e-400",
                                                   "1e9"};
  return one_of(random, numbers);
}

/// The same token deep inside brackets or behind signs.
std::string nested(std::string_view token, Random& random) {
  static const std::vector<std::pair<std::string, std::string>> around = {
      {"(", ")"}, {"-", ""}, {"not ", ""}, {"exp(", ")"}, {"", " + 1"}, {"", "[batch as batch2]"}, {"2 ^ ", ""}};
  const auto& [before, after] = one_of(random, around);
  const size_t depth = one_of(random, std::vector<size_t>{3, 30, 300, 3000});
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += before;
  text += token;
  for (size_t i = 0; i < depth; ++i) text += after;
  return text;
}

void change_tokens(std::string& text, const Texts& texts, Random& random, bool mild) {
  const std::vector<Token> tokens = tokens_of(text);
  if (tokens.empty()) return;
  const Token token = one_of(random, tokens), other = one_of(random, tokens);
  const auto of_kind = [&](TokenKind kind) {
    std::vector<std::string> same;
    for (const Token& one : tokens)
      if (one.kind == kind) same.emplace_back(one.text);
    return same.empty() ? std::string(token.text) : one_of(random, same);
  };
  const auto put = [&](const std::string& instead) { text.replace(token.span.begin, token.span.size(), instead); };
  switch (below(random, mild ? 4 : 9)) {
    case 0: put(of_kind(token.kind)); break;
    case 1: put(token.kind == TokenKind::number ? std::to_string(1 + below(random, 9)) : of_kind(token.kind)); break;
    case 2:
      put(token.kind == TokenKind::symbol ? one_of(random, Texts{"+", "-", "*", "/", "<", ">="}) : of_kind(token.kind));
      break;
    case 3: put(token.kind == TokenKind::word ? of_kind(TokenKind::word) : std::string(token.text)); break;
    case 4: put(""); break;
    case 5: put(std::string(token.text) + " " + std::string(other.text)); break;
    case 6: put(token.kind == TokenKind::number ? number(random) : std::string(other.text)); break;
    case 7: put(nested(token.text, random)); break;
    default: {
      const std::vector<Token> others = tokens_of(one_of(random, texts));
      if (!others.empty()) put(std::string(one_of(random, others).text));
    }
  }
}

}  // namespace

std::string mutated(const std::vector<std::string>& texts, std::mt19937_64& random, bool mild) {
  std::string text = one_of(random, texts);
  const size_t changes = 1 + below(random, mild ? 2 : 4);
  for (size_t i = 0; i < changes; ++i) {
    const size_t kind = mild ? 0 : below(random, 4);
    if (kind <= 1) change_tokens(text, texts, random, mild);
    else if (kind == 2) change_bytes(text, random);
    else change_lines(text, texts, random);
  }
  return text;
}

}  // namespace mesh::fuzz
