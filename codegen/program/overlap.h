// overlap.h: collectives that are under way while other steps are executed: started where they stand or before, waited
// for where what they move is needed first, or overwritten. Start and wait stand in one list of steps, or the start in
// a loop's body and the wait in a loop over the same turns behind it; in between nobody touches their buffers. The wait
// has the accesses of the start, so buffers live until then.
#pragma once
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// The values that a step moves, all in one phase; none of a step that is no collective.
std::span<CollectiveStep> movements(Step&);
std::span<const CollectiveStep> movements(const Step&);

/// Of a step that sends while it computes what goes round; null of others.
const AttentionStep::Ring* ring_of(const Step&);

/// Starts every collective with steps that compute something before what it moves is needed. Those whose time these
/// steps do not hide are started as much earlier as hides it, if `early`, which takes memory. Those between hosts of
/// which each turn of a loop makes one, in a slot that no other turn uses, are waited for behind the loop.
void overlap_collectives(Program&, bool early);

/// Where in the list the collective is waited for that step `start` starts; the list's size: nowhere.
size_t wait_of(std::span<const Step>, size_t start);

/// Whether all that a step uses of a collective's memory is the slot of this turn of the loop, as the collective does:
/// then the next turn's is other memory.
bool keeps_to_its_turn(const Program&, const Step& call, const Step&, LoopId);

/// The steps that are executed while a collective or a message between stages is under way, in all routines.
std::set<const Step*> steps_meanwhile(const Program&);

/// What is wrong with starts and waits (verify_calls.cpp): of a step in between that touches what a collective moves, a
/// start that is never waited for, a wait for nothing.
std::vector<std::string> verify_calls(const Program&, std::span<const Step>);

}  // namespace mesh
