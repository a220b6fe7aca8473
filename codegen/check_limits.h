// check_limits.h: whether the compiled program keeps what was set for it: the budget of its layout, and the memory of a
// host.
#pragma once
#include <vector>

#include "codegen/compile.h"

namespace mesh {

/// Bytes that a rank may take: --memory, else its share of the machine's; nothing where neither is said.
std::optional<int64_t> memory_of_rank(const CompileRequest&, const Machine&, const MeshShape&);

/// The least that something lets a rank hold, and what does: "--memory gives it 1.5 GiB".
struct MemoryLimit {
  int64_t bytes;
  std::string text;
};
std::optional<MemoryLimit> memory_limit(const CompileRequest&, const Machine&, const MeshShape&,
                                        const std::vector<Limit>& budget);

/// Sets `budget` and `room`. A limit that is broken is an error with what breaks it, its line and a way out that was
/// compiled on trial: E0415 (memory), E0416 (bytes), E0417 (forbidden), E0418 (counts). More memory than there is: the
/// lint over_memory. Nothing is measured where the program is not the one to be run (`wanted`, `plain`, `one_rank`).
void check_limits(const CompileRequest&, const std::vector<Limit>& budget, Compiled&, const SourceMap&,
                  DiagnosticSink&);

}  // namespace mesh
