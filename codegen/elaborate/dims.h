// dims.h: dims and consts: their sizes, whatever the order of declaration; lookup with suggestions; `require`.
#pragma once
#include <optional>
#include <string>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// Evaluates every dim and const of the files (E0206 cycles, E0208 `--set` of something else; bad sizes as
/// frontend/size.h says) and checks each `require` (E0305).
void declare_globals(Elaboration&);

/// The dims that a body of a block or model declares, whatever their order: `Block.dim`, one dim for each size it
/// takes. E0204, E0206.
void declare_local(Elaboration&, DimScope&, const ast::Body&);

void check_requirement(Elaboration&, const DimScope&, const ast::Require&);

/// A dim that an op gives names to within itself: of this size (that of `dim`, unless another is given), called like
/// `dim` with the ending; one for all that ask for it.
DimId twin(Elaboration&, DimId dim, const std::string& ending, std::optional<int64_t> size = {});

/// Unset where there is none.
DimId find_dim(const Elaboration&, const DimScope&, const std::string& name);
/// The same, reporting E0201 (or E0205 for the name of a value).
DimId dim_named(Elaboration&, const DimScope&, const ast::Name&);

}  // namespace mesh::elaboration
