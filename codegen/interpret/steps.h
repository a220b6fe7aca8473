// steps.h: the steps of a routine bound to one rank: a list of tasks with every address, extent and group
// fixed, so that running them allocates nothing and decides nothing.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "codegen/interpret/binding.h"

namespace mesh {

using Task = std::function<void()>;

/// The binding outlives the tasks. What the interpreter does not have is an internal error here, not at the run.
std::vector<Task> bind_steps(Binding&, std::span<const Step>);

/// A loop that has an order.
Task bind_pipeline(Binding&, const ForStep&);

// One kind of step each.
Task bind_step(Binding&, const Nest&);
Task bind_step(Binding&, const ProductStep&);
Task bind_step(Binding&, const AttentionStep&);
Task bind_step(Binding&, const TakeStep&);
Task bind_step(Binding&, const ScatterStep&);
Task bind_step(Binding&, const DefinedStep&);
Task bind_step(Binding&, const CollectiveStep&);
Task bind_step(Binding&, const CombinedStep&);
Task bind_step(Binding&, const CopyStep&);
Task bind_step(Binding&, const FillStep&);
Task bind_step(Binding&, const MessageStep&);
Task bind_step(Binding&, const UntilStep&);
Task bind_step(Binding&, const ForStep&);
Task bind_step(Binding&, const BranchStep&);
Task bind_step(Binding&, const ActionStep&);
Task bind_step(Binding&, const OnePassStep&);

}  // namespace mesh
