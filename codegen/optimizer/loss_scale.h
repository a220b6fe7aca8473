// loss_scale.h: gradients that begin from a scale in place of 1, so that small ones are not lost in a type of few bits,
// and are divided by it before anybody reads them. (Micikevicius et al., arXiv 1710.03740, 3.2.) A step whose gradients
// are not finite changes no parameter and nothing that the optimizer keeps of it. A scale that changes has the defaults
// of torch.cuda.amp.GradScaler: it starts at 65536, halves with such a step, and doubles after 2000 others in a row.
// Replicas that train apart have each their own, and skip each their own steps: all numbers below are [replica] then.
#pragma once
#include <map>

#include "codegen/elaborate/precision.h"
#include "codegen/graph/builder.h"

namespace mesh {

/// Of the graph of a training step, before gradients: its loss is scaled. What is kept are new Stored tensors,
/// "LOSS.scale" and "LOSS.good_steps" of a scale that changes, and "LOSS.skipped_steps".
void declare_loss_scale(Graph&, const LossScale&);

/// The loss whose gradients are taken: Graph::objective's own where none is scaled.
ValueId scaled_loss(Graph&);

/// Once gradients are complete, ranks and micro-batches aside: "grad(PATH)" is the gradient of the loss itself for all
/// who read it. Nothing is done where no loss is scaled, here and below.
void unscale_gradients(Graph&);

/// The scale of this step, and how many steps were skipped before it; unset where no loss is scaled.
ValueId loss_scale(GraphBuilder&);
ValueId skipped_steps(GraphBuilder&);

/// The number of this step among those that are taken, f64: what an optimizer corrects its averages by. A learning rate
/// goes by all steps.
ValueId step_taken(GraphBuilder&);

/// Whether the step is taken: whether all gradients are finite, and so is their norm. Unset where no loss is scaled.
ValueId is_finite(GraphBuilder&, const std::map<StoredId, ValueId>& gradients);

/// What a stored tensor becomes: `now`, or what it was where the step is not taken.
ValueId if_finite(GraphBuilder&, ValueId finite, StoredId, ValueId now);

/// Appends what the step makes of the scale and of its counts.
void update_loss_scale(GraphBuilder&, ValueId finite);

}  // namespace mesh
