// blocks.h: blocks and their instances: binding a block's dims, declaring what it owns, and inlining its body at a
// call. What a model owns is declared in one pass before anything is computed, in source order, so that a parameter's
// place does not depend on where it is used first.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// `[query = source]` or `[source]`: the dim that a block's dim parameter stands for.
struct DimArgument {
  std::optional<ast::Name> parameter;
  ast::Name dim;
};

/// The block's dims bound in order or by name. E0216 for too few, too many, unknown or repeated ones.
std::optional<DimScope> bind_dims(Elaboration&, const DimScope& caller, const ast::Block&,
                                  const std::vector<DimArgument>&, Span);

/// Declares local dims, inputs, parameters and instances of a body and of the loops and instances in it. `loops` are
/// the dims that come first in what is declared here.
void declare_body(Elaboration&, DimScope&, const std::string& path, const ast::Body&, const std::vector<DimId>& loops);

/// Of what blocks make: "operations", and why they are so many.
struct Made {
  size_t count;
  const char *what, *why;
};
/// E0119, once, where that is more than anybody meant.
bool is_too_large(Elaboration&, const Made&, Span);

/// Whether a call of the block makes parameters.
bool owns_parameters(const Elaboration&, const ast::Block&);

std::vector<Term> call_instance(Elaboration&, Frame&, const Binding&, const ast::Call&, Span);
std::vector<Term> call_unnamed(Elaboration&, Frame&, const ast::Block&, const ast::Call&, Span);

}  // namespace mesh::elaboration
