// spec_hash.h: the number by which ranks and checkpoints know that they are of one program.
#pragma once
#include <string>

#include "codegen/compile.h"

namespace mesh {

/// FNV-1a over everything that decides what is emitted, as 16 hexadecimal digits. The machine's description is one of
/// the sources.
std::string spec_hash(const CompileRequest&, const SourceMap&, const Layout&);

}  // namespace mesh
