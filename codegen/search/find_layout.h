// find_layout.h: what stands in place of `auto` in a layout: rules that a search found, as text that people read and as
// part of the layout.
#pragma once
#include <optional>

#include "codegen/compile.h"
#include "codegen/search/trials.h"

namespace mesh {

struct FoundAndResolved {
  Layout layout;
  FoundLayout found;
};

/// Completes a layout that says `auto`. What was found is one of the sources from then on, so that messages point to
/// its lines. The rules that are written stay; E0425 where no others that were tried leave a rank the memory that it
/// needs. `seconds`: how long the search takes at most, about; it does the same on every machine.
std::optional<FoundAndResolved> find_layout(const SearchRequest&, const Layout& written, double seconds,
                                            DiagnosticSink&);

}  // namespace mesh
