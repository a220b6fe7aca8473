// generate.h: `generate token along seq from logits`: what a trained model continues. Whether it can, position by
// position, is proved of the graph (generation/causal.h). E0511.
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

void generate_statement(Elaboration&, Frame&, const ast::Generate&, Span);

}  // namespace mesh::elaboration
