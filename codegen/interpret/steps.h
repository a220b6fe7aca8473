// steps.h: the steps of a routine bound to one rank: a list of actions with every address, extent and group
// fixed, so that running them allocates nothing and decides nothing.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "codegen/interpret/binding.h"

namespace mesh {

using Action = std::function<void()>;

/// The binding outlives the actions. What the interpreter does not have is an internal error here, not at the run.
std::vector<Action> bind_steps(Binding&, std::span<const Step>);

// One kind of step each.
Action bind_step(Binding&, const Nest&);
Action bind_step(Binding&, const ProductStep&);
Action bind_step(Binding&, const AttentionStep&);
Action bind_step(Binding&, const TakeStep&);
Action bind_step(Binding&, const TakeGradientStep&);
Action bind_step(Binding&, const DefinedStep&);
Action bind_step(Binding&, const CollectiveStep&);
Action bind_step(Binding&, const CombinedStep&);
Action bind_step(Binding&, const CopyStep&);
Action bind_step(Binding&, const FillStep&);
Action bind_step(Binding&, const UntilStep&);
Action bind_step(Binding&, const ForStep&);
Action bind_step(Binding&, const BranchStep&);

}  // namespace mesh
