// passes.h: the passes of a compilation, in the order of their list.
#pragma once
#include <cstdint>

#include "codegen/compile/compilation.h"

namespace mesh {

/// What a pass is of; `model` of an entry whose graph is still to become complete.
enum class Of : uint8_t { spec, model, entry, program };

/// Runs all passes of that (of an entry those of its model, too). Whether to go on: not after an error, nor after the
/// pass at which the request stops.
bool run(Compilation&, Of);

// Those of a model. Each works on the graph of the entry under way.
void elaborate_entry(Compilation&);
/// The layout, which all entries have. A step of replicas that train apart is that of one of them from here to
/// `complete`.
void take_layout(Compilation&);
void take_one_replica(Compilation&);
/// One form for what a spec may write in several. What a layout may split stays apart.
void recognise_ops(Compilation&);
void narrow_entry(Compilation&);
void differentiate_entry(Compilation&);
void complete_entry(Compilation&);

/// The placements of the entry, and nothing said of what they cost.
void place_graph(Compilation&);
/// The same, and what is costly about it.
void place_entry(Compilation&);

}  // namespace mesh
