// initial.h: how a parameter begins: `zeros`, `fan_in[embed]`, `normal(std: 0.02)`, a number.
#pragma once
#include <optional>

#include "codegen/graph/elaborate/context.h"

namespace mesh::elaboration {

/// Nothing when an error was reported (E0318).
std::optional<meshrt::Initial> initial_value(Elaboration&, DimScope&, const ast::Expr&);

}  // namespace mesh::elaboration
