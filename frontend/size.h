// Size expressions: what stands behind `dim`, `const`, `require`, the axes of a mesh and the numbers of an attribute.
//
// A bare name is a size there. Everything is exact: integers and fractions of 64 bits, `1.25` is 5/4, overflow is an
// error. `/` must give a whole number, except inside `ceil( )` and `floor( )`; there are `+ - * / % ^`, `min`, `max`,
// comparisons and `and or not`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/ast.h"
#include "frontend/diagnostic.h"
#include "frontend/rational.h"

namespace mesh {

// What a name stands for in a size expression.
struct NamedSize {
  std::optional<Rational> value;  // nothing: its own declaration is wrong, and that was reported
  Span declared;                  // the name where it is declared; unknown if nowhere
  // Where the value comes from when it is not what the declaration says: "heads = 12 was set by --set, over
  // `heads = 16` on line 7". Errors repeat it as a note.
  std::string origin;
  bool inexact = false;  // a const that is no fraction, and so no part of a size: `const root = sqrt(2)`
};

struct SizeScope {
  std::function<std::optional<NamedSize>(const std::string& name)> find;
  std::function<std::vector<std::string>()> names;  // all of them, for "did you mean"; may be empty
  std::optional<bool> training = {};                // what `training` means, where it may stand
};

// The value of a number expression; nothing after an error was reported, or silently where a name has no value.
std::optional<Rational> evaluate_number(const ast::Expr& expr, const SizeScope& scope, DiagnosticSink& sink);

// The same where `/` may leave a fraction: a const.
std::optional<Rational> evaluate_fraction(const ast::Expr& expr, const SizeScope& scope, DiagnosticSink& sink);

// The same for what must be a whole number of at least `least`. `what` names it in errors: "dim `half`".
std::optional<std::int64_t> evaluate_size(const ast::Expr& expr, const SizeScope& scope, DiagnosticSink& sink,
                                          const std::string& what, std::int64_t least = 1);

// The value of a condition.
std::optional<bool> evaluate_condition(const ast::Expr& expr, const SizeScope& scope, DiagnosticSink& sink);

// Reports E0305 with names and numbers unless the condition holds. True when it holds or cannot be evaluated.
bool check_require(const ast::Require& require, const SizeScope& scope, DiagnosticSink& sink);

}  // namespace mesh
