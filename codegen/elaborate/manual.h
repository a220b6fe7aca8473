// manual.h: manual regions. `manual ffn over model { }` is written for one rank of the axis: `ffn` is the part that the
// rank has, and collectives over the axis are calls. What each rank has of a value is kept as a dim of the graph that
// the region does not see, so that one rank computes what all of them do, and a layout need only split that dim.
#pragma once
#include <string>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// E0351, E0352 for axes and dims that the region cannot have.
void manual_statement(Elaboration&, Frame&, const ast::Manual&, Span);

/// Whether a statement may stand here, as far as manual regions go. E0317.
bool may_stand_here(Elaboration&, Frame&, const ast::Statement&);

/// What a name means here: within a manual region of a value from outside what one rank sees of it. E0350 for a value
/// of a region that has ended, unless it is the same on all ranks.
Term seen_here(Elaboration&, const Frame&, const Binding&, const std::string& name, Span);

/// A node that stands for what is done with several ranks, until the region ends.
ValueId stand_in(Elaboration&, const AcrossRanks&, ValueId operand, ValueType seen);

/// The ranks of an axis that an open region is manual over; unset where none is.
DimId ranks_of(const Elaboration&, const std::string& axis);
/// The axis that the dim counts the ranks of.
const std::string& axis_of(const Elaboration&, DimId ranks);

}  // namespace mesh::elaboration
