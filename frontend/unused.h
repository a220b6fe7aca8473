// Names that a spec declares and nothing mentions.
#pragma once

#include "frontend/diagnostic.h"
#include "frontend/imports.h"

namespace mesh {

// The lints `unused_block`, `unused_dim` and `unused_value` for the spec itself, not for what it imports: a shared file
// may declare more than one spec needs. Any mention counts, in a layout too, of a block those in models and in blocks
// that they call; a value of a model without `minimize`, `generate`, updates and outputs is a result, there to be
// fetched.
void report_unused(const SourceProgram& program, DiagnosticSink& sink);

}  // namespace mesh
