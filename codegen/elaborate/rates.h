// rates.h: learning rates as a spec writes them: a number, a schedule, or a product of them.
#pragma once
#include <optional>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// E0503 for what is no rate. Of a product, `train.lr` replaces the peak of the first schedule, or the number if there
/// is no schedule.
std::optional<RateOp> rate_of(Elaboration&, DimScope&, const ast::Expr&);

}  // namespace mesh::elaboration
