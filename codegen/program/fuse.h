// fuse.h: makes few steps of many. A lowered program has a nest for every node; here neighbouring nests with the same
// outer dims become one nest of a few passes, values pass through scalars and rows in place of buffers, and what
// follows a product (bias, activation, gate, residual) moves into it. A whole layer norm, softmax, cross-entropy with
// its gradient, or optimizer update ends as one nest.
#pragma once
#include <optional>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// Everything below in order, then drops what nobody reads.
void fuse(Program&);

// ---- the parts, by file

/// join_branches.cpp: what a stage of a pipeline does alone in an action becomes one branch, where nothing is in the
/// way.
void join_branches(Program&);
/// share_copies.cpp: a value that two readers need in the same other order in memory is copied once.
void share_copies(Program&);
/// fuse_epilogues.cpp: elementwise nests right after a product join its epilogue.
void fuse_epilogues(Program&);
/// rounded_alone.cpp: says of products whose result is read in bf16 alone that it is.
void mark_rounded_alone(Program&);
/// fuse_rounding.cpp: parameters that products take in bf16 are rounded as products read them.
void fuse_rounding(Program&);
/// fuse_column_sums.cpp: sums of a product's right operand become its column sum.
void fuse_column_sums(Program&);
/// fuse_carries.cpp: loops' carries are written, and added to, in place.
void fuse_carries(Program&);
/// add_in_place.cpp: a value that a product adds to its sum, and nobody needs afterwards, is made where the sum lies.
void add_in_place(Program&);
/// add_turns_in_place.cpp: what turns of loops make slot by slot, and is then added to a sum, is added where it is
/// made.
void add_turns_in_place(Program&);
/// fuse_nests.cpp: merges nests of one body; those with other steps in between only if `across` is set.
void fuse_nests(Program&, bool across);
/// coalesce.cpp: what is copied is made where the copy lies; gradients of lookups are added to other gradients in
/// place.
void coalesce(Program&);
/// join_sums.cpp: two sums that are only added to, and then to each other, are one.
void join_sums(Program&);
/// join_terms.cpp: terms of a sum that no rank has two of lie where the sum does.
void join_terms(Program&);
/// renew.cpp: caches that are renewed element by element are renewed where they lie.
void renew_in_place(Program&);
/// simplify.cpp: computes cheap values again in later passes of a nest in place of storing them; removes stores that
/// nobody reads, scalars, passes, nests and buffers that are left without use.
void simplify(Program&);
/// simplify.cpp: readers of a plain copy read the original.
void forward_copies(Program&);

/// sink_nests.cpp: moves each nest of a list down to just before the first step that reads what it gives. What is
/// `shared`, by buffer, is made in the forward part.
void sink_nests(const Program&, Steps&, const std::vector<bool>& shared);
/// merge_nests.cpp: the two nests as one, if they have outer dims in common and every iteration of the second needs of
/// the first only its own iteration.
std::optional<Nest> merged(const Program&, const Nest& first, const Nest& second);

// ---- shared helpers (step_sets.cpp)

/// Buffers (their memory, not views) that a step reads and writes, sorted.
struct StepSets {
  std::vector<uint32_t> reads, writes;
};
StepSets sets_of(const Program&, const Step&);
/// Whether the two may not change places.
bool conflict(const StepSets&, const StepSets&);
/// How many pairs of steps this thread has asked this of.
uint64_t conflicts_asked();
bool contains(const std::vector<uint32_t>& sorted, uint32_t);
/// Whether a step of the forward part makes something `shared` (by buffer), and may not move below other parts.
bool stays_in_forward(const Step&, const StepSets&, const std::vector<bool>& shared);
/// Whether the pass reads, by a map, elements that earlier iterations of it stored: a running sum.
bool reads_own_stores(const Program&, const Pass&);
/// Whether the step writes this memory, and reads of it no more than what its own earlier iterations stored.
bool is_running_sum(const Program&, const Step&, BufferId memory);
/// Adds the spans and the scope of a step that another one swallows.
void swallow(Step& into, const Step& from);
/// How often each buffer's memory is read and written in the whole program, views included.
struct UseCounts {
  std::vector<int> reads, writes;
};
UseCounts count_uses(const Program&);

}  // namespace mesh
