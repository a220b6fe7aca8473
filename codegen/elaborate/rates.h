// rates.h: learning rates as a spec writes them: a number, a schedule, or a product of them.
#pragma once
#include <optional>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// What rates and settings of optimizers stay below: a float, with room for what it multiplies.
constexpr double beyond_settings = 1e30;

/// E0503 for what is no rate. Of a product, `train.lr` replaces the peak of the first schedule, or the number if there
/// is no schedule.
std::optional<RateOp> rate_of(Elaboration&, DimScope&, const ast::Expr&);

}  // namespace mesh::elaboration
