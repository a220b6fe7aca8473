// state.h: `s <- e`, and what a model gives: metrics, which read what the step reads, and outputs, where a state is its
// value after `<-`.
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// Checks the expression that a state begins as, if it does, and makes it the state's value after this entry where that
/// is the entry's purpose.
void begin_state(Elaboration&, Frame&, Binding& state, const ast::Expr& initial);

/// E0509 for a state that the step would update more than once.
void update_statement(Elaboration&, Frame&, const ast::Update&);

/// Makes updates that lie in the loop's body visible outside, a turn each.
void collect_updates(Elaboration&, const Loop&, LoopOp&, Node&, BodyId outer);

/// The end of a step: every state takes its new value, and its name means that value from now on.
void finish_updates(Elaboration&);

/// What a stored tensor is when the step is over.
ValueId value_after(const Elaboration&, StoredId);

/// The metrics and outputs of the model, when everything else of it is known.
void results_of_model(Elaboration&, Frame&, const ast::Body&);

}  // namespace mesh::elaboration
