#include <fmt/format.h>

#include <cstdlib>

#include "frontend/print_ast.h"

namespace mesh {

namespace {

template <class T, class F>
std::string list(const std::vector<T>& elements, const char* between, F text) {
  std::string result;
  for (const T& one : elements) {
    if (!result.empty()) result += between;
    result += text(one);
  }
  return result;
}

class ExprPrinter {
 public:
  explicit ExprPrinter(const std::function<std::string(const ast::Path&)>& path) : path_(path) {}

  std::string print(const ast::Expr& expr) const {
    return std::visit([&](const auto& node) { return print(node); }, expr.node);
  }

 private:
  std::string print(const ast::Number& number) const { return number.text; }
  std::string print(const ast::String& string) const { return fmt::format("\"{}\"", string.value); }
  std::string print(const ast::Bool& value) const { return value.value ? "true" : "false"; }
  std::string print(const ast::Path& path) const { return path_(path); }
  std::string print(const ast::Cast& cast) const {
    return fmt::format("index({})({})", cast.index_of.text, print(*cast.value));
  }
  std::string print(const ast::Unary& unary) const {
    const char* space = unary.op == ast::UnaryOp::logical_not ? " " : "";
    return fmt::format("{}{}{}", spelling(unary.op), space, print(*unary.operand));
  }
  std::string print(const ast::Binary& binary) const { return infix(binary); }
  std::string print(const ast::Compare& compare) const { return infix(compare); }
  std::string print(const ast::Logical& logical) const { return infix(logical); }
  std::string print(const ast::Index& index) const { return print(*index.value) + items(index.items); }
  std::string print(const ast::Group& group) const {
    return fmt::format("({})", list(group.values, ", ", [&](const ast::ExprPtr& value) { return print(*value); }));
  }
  std::string print(const ast::Call& call) const {
    const std::string arguments = list(call.arguments, ", ", [&](const ast::Argument& argument) {
      return argument.name ? fmt::format("{}: {}", argument.name->text, print(*argument.value))
                           : print(*argument.value);
    });
    return fmt::format("{}{}({})", call.callee.text(), items(call.items), arguments);
  }

  template <class Infix>
  std::string infix(const Infix& infix) const {
    return fmt::format("{} {} {}", print(*infix.left), spelling(infix.op), print(*infix.right));
  }

  static std::string items(const std::vector<ast::Item>& items) {
    if (items.empty()) return "";
    return fmt::format("[{}]", list(items, ", ", [](const ast::Item& item) { return mesh::print(item); }));
  }

  const std::function<std::string(const ast::Path&)>& path_;
};

}  // namespace

std::string print(const ast::Expr& expr, const std::function<std::string(const ast::Path&)>& path) {
  return ExprPrinter(path).print(expr);
}

std::string print(const ast::Expr& expr) {
  return print(expr, [](const ast::Path& path) { return path.text(); });
}

std::string print(const ast::Type& type) {
  std::string text = type.element.text;
  if (type.index_of) text += fmt::format("({})", type.index_of->text);
  if (type.slots.empty()) return text;
  const auto slot = [](const ast::Slot& one) {
    if (one.rest) return std::string("...");
    return one.value ? fmt::format("{} = {}", one.dim.text, one.value->text) : one.dim.text;
  };
  return fmt::format("{}[{}]", text, list(type.slots, ", ", slot));
}

std::string print(const ast::Item& item) {
  if (item.rest) return "...";
  std::string text = item.pick.text();
  if (item.window) {
    text += fmt::format(": {}", item.window->size ? item.window->size->text : item.window->dim.text);
    if (item.window->stride) text += fmt::format(" stride {}", item.window->stride->text);
    if (item.window->dilate) text += fmt::format(" dilate {}", item.window->dilate->text);
  }
  if (item.range) {
    text += fmt::format(" = {}", print(*item.range->begin));
    if (item.range->open) text += "..";
    if (item.range->end) text += print(*item.range->end);
    if (item.range->step) text += fmt::format(" step {}", item.range->step->text);
  }
  if (item.as) text += fmt::format(" as {}", item.as->text());
  return text;
}

}  // namespace mesh
