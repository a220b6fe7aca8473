// initial.h: how a parameter begins: `zeros`, `fan_in[embed]`, `normal(std: 0.02)`, a number.
#pragma once
#include <optional>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// Whether a state's initial value, in the body `path`, is an expression that a step has to compute: it names a
/// parameter, an input or a value, or positions.
bool is_computed(const Elaboration&, const std::string& path, const ast::Expr&);

/// Nothing when an error was reported (E0318).
std::optional<meshrt::Initial> initial_value(Elaboration&, DimScope&, const ast::Expr&);

}  // namespace mesh::elaboration
