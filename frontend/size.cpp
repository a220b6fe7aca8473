#include "frontend/size.h"

#include <algorithm>
#include <variant>

#include "frontend/print_ast.h"
#include "frontend/suggest.h"

namespace mesh {

namespace {

using Value = std::variant<Rational, bool>;

std::string text(const Value& value) {
  if (const auto* number = std::get_if<Rational>(&value)) return number->text();
  return std::get<bool>(value) ? "true" : "false";
}

// `heads * head_dim` -> `12 * 64`
std::string with_numbers(const ast::Expr& expr, const SizeScope& scope) {
  return print(expr, [&](const ast::Path& path) {
    const auto named = scope.find(path.text());
    return named && named->value ? named->value->text() : path.text();
  });
}

// Every name of the expression, once, in order.
void collect_names(const ast::Expr& expr, std::vector<std::string>& names) {
  const auto visit = [&](const ast::ExprPtr& child) { collect_names(*child, names); };
  if (const auto* path = ast::as<ast::Path>(expr)) {
    if (std::find(names.begin(), names.end(), path->text()) == names.end()) names.push_back(path->text());
  } else if (const auto* unary = ast::as<ast::Unary>(expr)) {
    visit(unary->operand);
  } else if (const auto* binary = ast::as<ast::Binary>(expr)) {
    visit(binary->left), visit(binary->right);
  } else if (const auto* compare = ast::as<ast::Compare>(expr)) {
    visit(compare->left), visit(compare->right);
  } else if (const auto* logical = ast::as<ast::Logical>(expr)) {
    visit(logical->left), visit(logical->right);
  } else if (const auto* group = ast::as<ast::Group>(expr)) {
    for (const ast::ExprPtr& value : group->values) visit(value);
  } else if (const auto* call = ast::as<ast::Call>(expr)) {
    for (const ast::Argument& argument : call->arguments) visit(argument.value);
  }
}

void note_origins(const ast::Expr& expr, const SizeScope& scope, DiagnosticBuilder& error) {
  std::vector<std::string> names;
  collect_names(expr, names);
  for (const std::string& name : names) {
    if (const auto named = scope.find(name); named && !named->origin.empty()) error.note(named->origin);
  }
}

class Evaluator {
 public:
  Evaluator(const SizeScope& scope, DiagnosticSink& sink, bool fractions = false)
      : scope_(scope), sink_(sink), rounded_(fractions ? 1 : 0) {}

  std::optional<Value> evaluate(const ast::Expr& expr) {
    return std::visit([&](const auto& node) { return value(expr, node); }, expr.node);
  }

  std::optional<Rational> number(const ast::Expr& expr) { return expect<Rational>(expr, "a number", "a condition"); }
  std::optional<bool> condition(const ast::Expr& expr) { return expect<bool>(expr, "a condition", "a number"); }

 private:
  template <class T>
  std::optional<T> expect(const ast::Expr& expr, const char* expected, const char* found) {
    const std::optional<Value> value = evaluate(expr);
    if (!value) return std::nullopt;
    if (const T* right = std::get_if<T>(&*value)) return *right;
    sink_.error("E0225", expr.span, "expected {}, found {}", expected, found).here("this is {}", text(*value));
    return std::nullopt;
  }

  std::optional<Value> value(const ast::Expr& expr, const ast::Number& number) {
    const auto exact = Rational::parse(number.text);
    if (exact) return Value(*exact);
    sink_.error("E0221", expr.span, "`{}` is too large for a size", number.text).note("sizes are 64-bit integers");
    return std::nullopt;
  }

  std::optional<Value> value(const ast::Expr&, const ast::Bool& constant) { return Value(constant.value); }

  std::optional<Value> value(const ast::Expr& expr, const ast::Path& path) {
    if (const auto named = scope_.find(path.text())) {
      if (named->inexact)
        sink_.error("E0223", expr.span, "`{}` is no exact number, and sizes are", path.text())
            .label(named->declared, "declared here");
      return named->value ? std::optional<Value>(*named->value) : std::nullopt;
    }
    if (path.text() == "training" && scope_.training) return Value(*scope_.training);
    auto error = sink_.error("E0201", expr.span, "unknown dim or constant `{}`", path.text());
    if (scope_.names) {
      if (const auto near = did_you_mean(path.text(), scope_.names())) {
        error.here("did you mean `{}`?", *near).fix(expr.span, *near);
      } else if (const auto known = scope_.names(); !known.empty()) {
        error.note("dims and consts here: " + some_of(known));
      }
    }
    return std::nullopt;
  }

  std::optional<Value> value(const ast::Expr& expr, const ast::Unary& unary) {
    if (unary.op == ast::UnaryOp::logical_not) {
      const auto operand = condition(*unary.operand);
      return operand ? std::optional<Value>(!*operand) : std::nullopt;
    }
    const auto operand = number(*unary.operand);
    return operand ? fitting(expr, subtract(0, *operand)) : std::nullopt;
  }

  std::optional<Value> value(const ast::Expr& expr, const ast::Binary& binary) {
    const auto left = number(*binary.left), right = number(*binary.right);
    if (!left || !right) return std::nullopt;
    switch (binary.op) {
      case ast::BinaryOp::add: return fitting(expr, add(*left, *right));
      case ast::BinaryOp::subtract: return fitting(expr, subtract(*left, *right));
      case ast::BinaryOp::multiply: return fitting(expr, multiply(*left, *right));
      case ast::BinaryOp::divide: return quotient(expr, binary, *left, *right);
      case ast::BinaryOp::remainder:
        if (*right == 0) return division_by_zero(expr, binary);
        return fitting(expr, remainder(*left, *right));
      case ast::BinaryOp::power: break;
    }
    if (!right->whole()) {
      sink_.error("E0223", binary.right->span, "a size needs a whole exponent, found {}", right->text());
      return std::nullopt;
    }
    if (*left == 0 && right->numerator() < 0) return division_by_zero(expr, binary);
    return fitting(expr, power(*left, right->numerator()));
  }

  std::optional<Value> quotient(const ast::Expr& expr, const ast::Binary& binary, Rational left, Rational right) {
    if (right == 0) return division_by_zero(expr, binary);
    const auto result = divide(left, right);
    if (!result || result->whole() || rounded_ > 0) return fitting(expr, result);
    auto error = sink_.error("E0220", expr.span, "`{}` is not a whole number", print(expr));
    error.here("{} = {}", with_numbers(expr, scope_), result->text());
    note_origins(expr, scope_, error);
    error.help("round it: `ceil({})` or `floor({})`", print(expr), print(expr));
    return std::nullopt;
  }

  std::optional<Value> division_by_zero(const ast::Expr& expr, const ast::Binary& binary) {
    auto error = sink_.error("E0224", expr.span, "division by zero in `{}`", print(expr));
    error.label(binary.right->span, "is 0");
    note_origins(expr, scope_, error);
    return std::nullopt;
  }

  std::optional<Value> value(const ast::Expr&, const ast::Compare& compare) {
    const auto left = number(*compare.left), right = number(*compare.right);
    if (!left || !right) return std::nullopt;
    const int order = mesh::compare(*left, *right);
    switch (compare.op) {
      case ast::CompareOp::equal: return Value(order == 0);
      case ast::CompareOp::not_equal: return Value(order != 0);
      case ast::CompareOp::less_equal: return Value(order <= 0);
      case ast::CompareOp::greater_equal: return Value(order >= 0);
      case ast::CompareOp::less: return Value(order < 0);
      case ast::CompareOp::greater: break;
    }
    return Value(order > 0);
  }

  std::optional<Value> value(const ast::Expr&, const ast::Logical& logical) {
    const auto left = condition(*logical.left), right = condition(*logical.right);
    if (!left || !right) return std::nullopt;
    return Value(logical.op == ast::LogicalOp::logical_and ? *left && *right : *left || *right);
  }

  std::optional<Value> value(const ast::Expr& expr, const ast::Group& group) {
    if (group.values.size() == 1) return evaluate(*group.values.front());
    return not_a_size(expr);
  }

  // `size[d]` is what a bare `d` is.
  std::optional<Value> value(const ast::Expr& expr, const ast::Index& index) {
    const auto* path = ast::as<ast::Path>(*index.value);
    if (path == nullptr || path->text() != "size" || index.items.size() != 1 ||
        index.items[0].kind() != ast::ItemKind::dim || index.items[0].pick.kind != ast::Pick::Kind::one) {
      return not_a_size(expr);
    }
    const ast::Name& name = index.items[0].pick.name();
    const ast::Expr bare{ast::Path{{name}, name.span}, name.span};
    return evaluate(bare);
  }

  std::optional<Value> value(const ast::Expr& expr, const ast::Call& call) {
    const std::string function = call.callee.text();
    const bool rounds = function == "ceil" || function == "floor";
    const bool extreme = function == "min" || function == "max";
    if (function == "where" && call.items.empty() && call.arguments.size() == 3) return chosen(call);
    if ((!rounds && !extreme) || !call.items.empty()) return not_a_size(expr);
    if (call.arguments.empty() || (rounds && call.arguments.size() > 1)) {
      sink_.error("E0223", expr.span, "`{}` takes {}, found {}", function, rounds ? "one number" : "numbers",
                  call.arguments.size());
      return std::nullopt;
    }
    std::vector<Rational> numbers;
    rounded_ += rounds ? 1 : 0;
    for (const ast::Argument& argument : call.arguments) {
      if (const auto one = number(*argument.value)) numbers.push_back(*one);
    }
    rounded_ -= rounds ? 1 : 0;
    if (numbers.size() < call.arguments.size()) return std::nullopt;
    if (function == "ceil") return Value(numbers[0].ceil());
    if (function == "floor") return Value(numbers[0].floor());
    const auto less = [](Rational a, Rational b) { return mesh::compare(a, b) < 0; };
    return Value(function == "min" ? *std::min_element(numbers.begin(), numbers.end(), less)
                                   : *std::max_element(numbers.begin(), numbers.end(), less));
  }

  // `where(training, 1.25, 2)`: both numbers must be good.
  std::optional<Value> chosen(const ast::Call& call) {
    const auto which = condition(*call.arguments[0].value);
    const auto yes = number(*call.arguments[1].value), no = number(*call.arguments[2].value);
    if (!which || !yes || !no) return std::nullopt;
    return Value(*which ? *yes : *no);
  }

  std::optional<Value> value(const ast::Expr& expr, const ast::String&) { return not_a_size(expr); }
  std::optional<Value> value(const ast::Expr& expr, const ast::Cast&) { return not_a_size(expr); }

  std::optional<Value> not_a_size(const ast::Expr& expr) {
    sink_.error("E0223", expr.span, "`{}` is not a size", print(expr))
        .note("sizes are made of numbers, dims, consts, `+ - * / % ^`, ceil, floor, min, max and where");
    return std::nullopt;
  }

  std::optional<Value> fitting(const ast::Expr& expr, std::optional<Rational> result) {
    if (result) return Value(*result);
    auto error = sink_.error("E0221", expr.span, "`{}` does not fit 64 bits", print(expr));
    error.here("{}", with_numbers(expr, scope_));
    note_origins(expr, scope_, error);
    return std::nullopt;
  }

  const SizeScope& scope_;
  DiagnosticSink& sink_;
  int rounded_;  // how many ceil( ) and floor( ) we are in
};

// The part of a false condition that is to blame: the first false side of an `and`.
const ast::Expr& culprit(const ast::Expr& expr, const SizeScope& scope) {
  const ast::Expr& inner = ast::without_parentheses(expr);
  const auto* both = ast::as<ast::Logical>(inner);
  if (both == nullptr || both->op != ast::LogicalOp::logical_and) return inner;
  DiagnosticSink ignored;
  const bool left_holds = evaluate_condition(*both->left, scope, ignored).value_or(true);
  return culprit(left_holds ? *both->right : *both->left, scope);
}

// `12 * 64 = 768`, `embed = 1024`, `1024`
std::string derivation(const ast::Expr& expr, const SizeScope& scope) {
  DiagnosticSink ignored;
  const auto value = Evaluator(scope, ignored).evaluate(expr);
  const std::string result = value ? text(*value) : "?";
  const std::string shown = ast::as<ast::Path>(expr) != nullptr ? print(expr) : with_numbers(expr, scope);
  return shown == result ? result : fmt::format("{} = {}", shown, result);
}

}  // namespace

std::optional<Rational> evaluate_number(const ast::Expr& expr, const SizeScope& scope, DiagnosticSink& sink) {
  return Evaluator(scope, sink).number(expr);
}

std::optional<Rational> evaluate_fraction(const ast::Expr& expr, const SizeScope& scope, DiagnosticSink& sink) {
  return Evaluator(scope, sink, true).number(expr);
}

std::optional<std::int64_t> evaluate_size(const ast::Expr& expr, const SizeScope& scope, DiagnosticSink& sink,
                                          const std::string& what, std::int64_t least) {
  const auto value = evaluate_number(expr, scope, sink);
  if (!value) return std::nullopt;
  if (value->whole() && value->numerator() >= least) return value->numerator();
  auto error = value->whole()
                   ? sink.error("E0222", expr.span, "{} must be at least {}, found {}", what, least, value->text())
                   : sink.error("E0222", expr.span, "{} must be a whole number, found {}", what, value->text());
  if (const std::string shown = derivation(expr, scope); shown != value->text()) error.here("{}", shown);
  note_origins(expr, scope, error);
  if (!value->whole()) error.help("round it: `ceil({})` or `floor({})`", print(expr), print(expr));
  return std::nullopt;
}

std::optional<bool> evaluate_condition(const ast::Expr& expr, const SizeScope& scope, DiagnosticSink& sink) {
  return Evaluator(scope, sink).condition(expr);
}

bool check_require(const ast::Require& require, const SizeScope& scope, DiagnosticSink& sink) {
  const auto holds = evaluate_condition(*require.condition, scope, sink);
  if (!holds || *holds) return true;
  const ast::Expr& blamed = culprit(*require.condition, scope);
  auto error = sink.error("E0305", blamed.span, "`require` fails: {}", print(blamed));
  if (const auto* compare = ast::as<ast::Compare>(blamed)) {
    error.here("{}, but {}", derivation(*compare->left, scope), derivation(*compare->right, scope));
  } else {
    error.here("{} is false", with_numbers(blamed, scope));
  }
  note_origins(blamed, scope, error);
  return false;
}

}  // namespace mesh
