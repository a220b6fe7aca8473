// overlap.h: collectives that are under way while other steps are executed: started where they stand or before, waited
// for where what they move is needed first, or overwritten. Start and wait stand in one list of steps; or the start in
// a loop's body and the wait in a loop over the same turns behind it; or in different turns of a loop (overlap_turns);
// or the start in the last turn of a loop, in its body or that of a loop in there, and the wait behind it (last_turn).
// What is started in forward steps that another routine executes too may be waited for behind them: by that one before
// all its other steps. In between nobody touches their buffers. The wait has the accesses of the start, so buffers live
// until then.
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

/// Whether the step is a call in this phase.
bool is_in(const Step&, CollectiveStep::Phase);

/// Whether values go between hosts in the call: within one, ranks move them themselves, and nothing goes on while they
/// compute.
bool is_between_hosts(const Program&, const Step& call);

/// Every rank makes all turns of the loop, several, one after the other.
bool is_plain(const ForStep&);

/// Of a step that sends while it computes what goes round; null of others.
const AttentionStep::Ring* ring_of(const Step&);

/// Of collectives between hosts in bodies of loops, those that may be under way from one turn to the next. What each
/// turn leaves in a place of its own is waited for behind the loop. If `shared`, so that places which the turns share
/// live as long as the loop: what a turn gathers of memory that the loop does not change is started when the turn
/// before is done with the place for it, and what it sums up from such a place is waited for when the next turn writes
/// it; the first turn's is started before the loop, the last one's waited for behind it. Whether there are any.
bool overlap_turns(Program&, bool shared);

/// Between hosts, where a loop waits for what turns of another one have left: updates behind it that go over all these
/// turns are made turn by turn in it, each as soon as its own turn's gradients are there.
void update_by_turns(Program&);

/// Between hosts, what all turns of a loop add up (those over micro-batches, mostly) is moved from within the last turn
/// on, as soon as the last step of that turn has added to it: of stacked values, to which a loop adds turn by turn,
/// what each of these turns has completed. What comes to a place of its own only if `shared`: that place lives as long
/// as the loop then. Whether there is any.
bool start_in_last_turn(Program&, bool shared);

/// Starts every collective with steps that compute something before what it moves is needed. Those whose time these
/// steps do not hide are started as much earlier as hides it, if `early`, which takes memory.
void overlap_collectives(Program&, bool early);

/// The steps of the routines that begin with the forward steps of the one whose list this is.
std::vector<Steps*> followers_of(Program&, const Steps&);

/// Where a call that step `from` of a list starts must have ended: before a step that touches its buffers, before the
/// end of the forward part, which another entry may execute by itself, and of the list.
size_t first_need(const Program&, std::span<const Step>, size_t from, const Step& call);

/// The step that waits for a call at `need` in a list, with the step that needs it.
Step wait_for(const Step& call, std::span<const Step>, size_t need);

/// Whether turns of the loop start, or wait for, what other turns move.
bool hands_over(const ForStep&);

/// Whether each turn of the loop begins with a wait for what that turn of another loop has started, and starts nothing
/// for others.
bool ends_others(const ForStep&);

/// Where in the list the collective is waited for that step `start` starts; the list's size: nowhere.
size_t wait_of(std::span<const Step>, size_t start);

/// Whether all that a step uses of a collective's memory is the slot of this turn of the loop, as the collective does:
/// then the next turn's is other memory.
bool keeps_to_its_turn(const Program&, const Step& call, const Step&, LoopId);

/// The steps that are executed while a collective or a message between stages is under way, in all routines.
std::set<const Step*> steps_meanwhile(const Program&);

/// What is wrong with starts and waits of a routine (verify_calls.cpp), whose own steps are executed after the forward
/// ones of another: of a step in between that touches what a collective moves, a start that is never waited for, a wait
/// for nothing.
std::vector<std::string> verify_calls(const Program&, std::span<const Step> forward, std::span<const Step> own);

}  // namespace mesh
