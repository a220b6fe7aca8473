// expressions.h: the walk over expressions. Each gives a term; what is wrong is reported once and gives poison.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

Term expression(Elaboration&, Frame&, const ast::Expr&);

/// The results of an expression that may give several (a call of a block), with the span of each.
std::vector<Term> expressions(Elaboration&, Frame&, const ast::Expr&);

/// A number that is known now: of literals, consts and sizes, where a bare dim is its size. E0315 otherwise.
std::optional<double> constant(Elaboration&, DimScope&, const ast::Expr&, const std::string& what);

/// The binding of a name in this body and, of a `repeat`, those around it; null where there is none.
Binding* find_name(Frame&, const std::string& name);

}  // namespace mesh::elaboration
