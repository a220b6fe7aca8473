#include "frontend/ast.h"

#include <cstdlib>

namespace mesh::ast {

static std::string join(const std::vector<Name>& names, const char* between) {
  std::string text;
  for (const Name& name : names) {
    if (!text.empty()) text += between;
    text += name.text;
  }
  return text;
}

std::string Path::text() const { return join(parts, "."); }
std::string Glob::text() const { return join(parts, "."); }
std::string Product::text() const { return join(names, " * "); }

File::File() = default;
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

bool Number::integer() const { return text.find_first_of(".eE") == std::string::npos; }

std::string Pick::text() const {
  switch (kind) {
    case Kind::one: return name().text;
    case Kind::product: return join(names, " * ");
    case Kind::sum: return join(names, " + ");
    case Kind::shift: break;
  }
  return name().text + (shift < 0 ? " - " : " + ") + std::to_string(std::abs(shift));
}

ItemKind Item::kind() const {
  if (rest) return ItemKind::rest;
  if (window) return ItemKind::window;
  if (range) return range->open || range->step ? ItemKind::slice : ItemKind::select;
  if (pick.kind == Pick::Kind::shift) return ItemKind::shift;
  if (pick.kind == Pick::Kind::sum) return ItemKind::concat;
  if (!as) return ItemKind::dim;
  if (as->kind == Pick::Kind::product) return ItemKind::split;
  return pick.kind == Pick::Kind::product ? ItemKind::merge : ItemKind::rename;
}

const char* spelling(UnaryOp op) { return op == UnaryOp::negate ? "-" : "not"; }

const char* spelling(BinaryOp op) {
  switch (op) {
    case BinaryOp::add: return "+";
    case BinaryOp::subtract: return "-";
    case BinaryOp::multiply: return "*";
    case BinaryOp::divide: return "/";
    case BinaryOp::remainder: return "%";
    case BinaryOp::power: break;
  }
  return "^";
}

const char* spelling(CompareOp op) {
  switch (op) {
    case CompareOp::equal: return "==";
    case CompareOp::not_equal: return "!=";
    case CompareOp::less_equal: return "<=";
    case CompareOp::greater_equal: return ">=";
    case CompareOp::less: return "<";
    case CompareOp::greater: break;
  }
  return ">";
}

const char* spelling(LogicalOp op) { return op == LogicalOp::logical_and ? "and" : "or"; }

const Expr& without_parentheses(const Expr& expr) {
  const Expr* inner = &expr;
  for (const auto* group = as<Group>(*inner); group != nullptr && group->values.size() == 1;
       group = as<Group>(*inner)) {
    inner = group->values.front().get();
  }
  return *inner;
}

}  // namespace mesh::ast
