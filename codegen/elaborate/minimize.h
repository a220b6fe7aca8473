// minimize.h: `minimize loss over globs with adamw(lr: ...) { groups }`: the objective, its optimizer and rate, and
// what each parameter's groups say. Errors E05xx.
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

void minimize_statement(Elaboration&, Frame&, const ast::Minimize&, Span);

}  // namespace mesh::elaboration
