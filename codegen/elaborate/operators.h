// operators.h: arithmetic, powers, comparisons and logic. Terms that are known now are folded in f64.
#pragma once
#include <string>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

Term unary_expression(Elaboration&, Frame&, const ast::Unary&, Span);
Term binary_expression(Elaboration&, Frame&, const ast::Binary&, Span);
Term compare_expression(Elaboration&, Frame&, const ast::Compare&, Span);
Term logical_expression(Elaboration&, Frame&, const ast::Logical&, Span);

/// Where two operands, their operator and the whole expression stand, and what messages call the operation ("`+`",
/// "`min`").
struct Operands {
  Span left, right, at, whole;
  std::string what;
};

/// add, subtract, multiply, divide, remainder, minimum, maximum: one-sided, no index, no bool. E0303, E0309, E0313.
Term arithmetic(Elaboration&, MapFunction, const Term& left, const Term& right, const Operands&);

/// E0313 for an element type that numbers are not computed in: bool, index. Says which cast is meant: to the type of
/// `beside`, where it is to meet that.
bool is_numeric(Elaboration&, ValueId, Span, const std::string& what, const Term* beside = nullptr);

}  // namespace mesh::elaboration
