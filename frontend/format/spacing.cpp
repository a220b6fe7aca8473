#include "frontend/format/spacing.h"

#include <set>

namespace mesh::format {
namespace {

/// `input x : real` in statements and ports; `lr: 3e-4` everywhere else.
bool is_wide_colon(const Placed& colon) { return colon.around != Around::other && colon.around != Around::rules; }

/// Words after which a bracket begins a value of its own.
bool is_before_value(const Token& token) {
  static const std::set<std::string_view> words{"and", "or", "not", "return", "require", "with", "until", "edge", "in"};
  return token.kind == TokenKind::word && words.count(token.text) > 0;
}

/// `f(`, `x[`: the bracket belongs to what stands before it.
bool is_attached(const Placed& left) {
  const Token& token = left.token;
  if (token.is(")") || token.is("]")) return true;
  return (token.kind == TokenKind::word && !is_before_value(token)) || token.kind == TokenKind::number;
}

}  // namespace

int spaces_between(const Placed& left, const Placed& right) {
  const Token &a = left.token, &b = right.token;
  if (b.is(",") || b.is(";") || b.is(")") || b.is("]")) return 0;
  if (b.is(":")) return is_wide_colon(right) ? 1 : 0;
  if (a.is("(") || a.is("[") || left.unary) return 0;
  if (b.is("}")) return a.is("{") ? 0 : 1;
  if (a.is(".") || b.is(".")) return 0;
  if (b.is("..")) return 0;
  if (a.is("..")) return b.kind == TokenKind::word && (b.text == "as" || b.text == "step") ? 1 : 0;
  if (b.is("(") || b.is("[")) return is_attached(left) ? 0 : 1;
  return 1;
}

}  // namespace mesh::format
