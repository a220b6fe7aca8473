#include "codegen/program/lower.h"

#include <algorithm>
#include <deque>

#include "codegen/program/accesses.h"
#include "codegen/program/bound.h"
#include "codegen/program/buffer_names.h"
#include "codegen/program/combine.h"
#include "codegen/program/exposed.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/lower_entry.h"
#include "codegen/program/memory.h"
#include "codegen/program/one_pass.h"
#include "codegen/program/overlap.h"
#include "codegen/program/pipeline_slots.h"
#include "codegen/program/walk.h"

namespace mesh {

const char* name_of(BufferKind kind) {
  switch (kind) {
    case BufferKind::input: return "input";
    case BufferKind::parameter: return "parameter";
    case BufferKind::optimizer: return "optimizer";
    case BufferKind::state: return "state";
    case BufferKind::cache: return "cache";
    case BufferKind::gradient: return "gradient";
    case BufferKind::activation: return "activation";
    case BufferKind::workspace: return "workspace";
    case BufferKind::result: return "result";
  }
  return "?";
}

namespace {

BufferKind kind_of(StoredKind kind) {
  switch (kind) {
    case StoredKind::input: return BufferKind::input;
    case StoredKind::parameter: return BufferKind::parameter;
    case StoredKind::optimizer: return BufferKind::optimizer;
    case StoredKind::state: return BufferKind::state;
    case StoredKind::cache: return BufferKind::cache;
  }
  return BufferKind::state;
}

BufferId stored_buffer(Program& program, std::string name, const ShardedGraph& sharded, StoredId id) {
  const Stored& stored = sharded.graph.stored[id.index];
  Buffer buffer{std::move(name), stored.path, stored.type.element, {}, kind_of(stored.kind), Space::own, id, {}, 0, -1,
                stored.span};
  if (stored.kind == StoredKind::parameter) buffer.space = Space::arena;
  for (size_t i = 0; i < stored.type.dims.size(); ++i)
    buffer.dims.push_back({stored.type.dims[i], sharded.placement(stored.value).dims[i]});
  buffer.elements = local_elements(sharded.graph, sharded.layout.mesh, stored.type, sharded.placement(stored.value));
  program.buffers.push_back(std::move(buffer));
  return {static_cast<uint32_t>(program.buffers.size() - 1)};
}

/// The buffers of another graph's stored tensors, by path.
std::vector<BufferId> stored_alike(const Graph& known, const std::vector<BufferId>& buffers, const Graph& graph) {
  std::vector<BufferId> same;
  const StoredNames names(known);
  for (const Stored& of : graph.stored) {
    const std::optional<StoredId> found = names.with_path(of.path);
    if (!found) internal_error("the first entry knows no tensor " + of.path);
    same.push_back(buffers[found->index]);
  }
  return same;
}

/// The dims of another entry's graph are the first one's, which may have more.
void check_dims(const Graph& first, const Entry& entry) {
  const std::vector<Dim>& dims = entry.sharded.graph.dims;
  const auto same = [](const Dim& a, const Dim& b) { return a.name == b.name && a.size == b.size; };
  if (dims.size() > first.dims.size() || !std::equal(dims.begin(), dims.end(), first.dims.begin(), same))
    internal_error("entry " + entry.name + " has other dims than the first");
}

/// Whether the forward steps of a routine leave all of `held`, and change nothing that outlives them.
bool forward_suffices(const Program& program, const Routine& routine, std::span<const BufferId> held) {
  if (forward_part_updates(program, routine)) return false;
  const size_t end = forward_steps(routine.steps);
  const std::vector<bool> outlives = outlive_routine(program);
  std::vector<bool> early(program.buffers.size()), late(program.buffers.size());
  for (size_t i = 0; i < routine.steps.size(); ++i)
    for (const uint32_t written : sets_of(program, routine.steps[i]).writes) (i < end ? early : late)[written] = true;
  return std::ranges::all_of(held, [&](BufferId id) {
    const uint32_t root = storage(program, id).index;
    return !late[root] && (early[root] || outlives[root]);
  });
}

void merge_steps(Program& program, const LowerOptions& options) {
  if (!options.fuse) return;
  fuse(program);
  combine_collectives(program);
}

/// `share`: an entry may execute the forward steps of the first in place of steps of its own.
Program lowered(std::span<const Entry> entries, const LowerOptions& options, bool share) {
  Program program;
  program.sharded = entries.front().sharded;
  const Graph& graph = program.sharded.graph;
  const StoredNames wishes(graph);
  BufferNames names(program);
  std::vector<BufferId> stored;
  for (uint32_t i = 0; i < graph.stored.size(); ++i)
    stored.push_back(stored_buffer(program, names.unique(wishes.of({i})), program.sharded, {i}));

  EntryLowering first(program, entries.front(), stored, 0);
  std::deque<EntryLowering> others;
  std::vector<std::vector<EqualValues>> equal;  // by other entry: what the first computes for it
  for (const Entry& entry : entries.subspan(1)) {
    check_dims(program.sharded.graph, entry);
    std::vector<ReshardStep>& steps = program.sharded.steps;
    others.emplace_back(program, entry, stored_alike(program.sharded.graph, stored, entry.sharded.graph),
                        static_cast<uint32_t>(steps.size()));
    steps.insert(steps.end(), entry.sharded.steps.begin(), entry.sharded.steps.end());
    equal.push_back(others.back().found_in(first));
    for (const EqualValues& one : equal.back()) first.keep(one.other);
  }

  // What the forward part of the first entry leaves is known when its steps are final.
  first.lower();
  for (std::vector<EqualValues>& of_one : equal) {
    const auto lies = [&](const EqualValues& one) { return first.buffer_of(one.other).has_value(); };
    if (!std::ranges::all_of(of_one, lies)) of_one.clear();
    for (const EqualValues& one : of_one) program.kept.push_back(*first.buffer_of(one.other));
  }
  if (!program.kept.empty()) merge_steps(program, options);
  std::vector<BufferId> kept = std::move(program.kept);
  std::span<const BufferId> held(kept);
  for (size_t i = 0; i < others.size(); ++i) {
    const std::span<const BufferId> own = held.first(equal[i].size());
    held = held.subspan(equal[i].size());
    const bool shares =
        share && !equal[i].empty() && forward_suffices(program, program.routines[program.step().run], own);
    if (shares) others[i].lower_after(program.step().run, equal[i], own);
    else others[i].lower();
  }
  merge_steps(program, options);
  if (options.fuse) update_in_one_pass(program);
  return program;
}

/// Within turns of loops: collectives start early where that takes no memory at the peak.
Program overlapped(Program program, const LowerOptions& options) {
  Program early = program;
  overlap_collectives(program, false);
  plan_memory(program, options.share_memory);
  overlap_collectives(early, true);
  plan_memory(early, options.share_memory);
  return early.memory.peak() > program.memory.peak() ? program : early;
}

/// Whether to have places of turns in use from turn to turn saves waiting, a hundredth of the step where it takes
/// memory, and there is room.
bool pays(const Program& within, const Program& between, const LowerOptions& options) {
  const bool takes_memory = between.memory.peak() > within.memory.peak();
  if (takes_memory && options.memory && between.memory.peak() > *options.memory) return false;
  const double seconds = step_cost(within).seconds;
  return seconds - step_cost(between).seconds > (takes_memory ? 0.01 * seconds : 0);
}

/// Where calls between hosts pay under way from turn to turn of loops, they are. If `in_last_turn`, what turns add up
/// is started within the last one.
Program overlapped_by_turns(Program program, bool in_last_turn, const LowerOptions& options) {
  const auto divide = [&](Program& one, bool shared) {
    const bool starts = in_last_turn && start_in_last_turn(one, shared), by_turns = overlap_turns(one, shared);
    if (starts || by_turns) update_by_turns(one);
    return starts || by_turns;
  };
  divide(program, false);
  Program shared = program;
  program = overlapped(std::move(program), options);
  if (!divide(shared, true)) return program;
  shared = overlapped(std::move(shared), options);
  return pays(program, shared, options) ? shared : program;
}

bool calls_other_hosts(const Program& program) {
  bool any = false;
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      any = any || (is_in(step, CollectiveStep::Phase::whole) && is_between_hosts(program, step));
    });
  return any;
}

}  // namespace

Program lower(std::span<const Entry> entries, const LowerOptions& options) {
  Program program = lowered(entries, options, true);
  // With the steps of all entries in sight, an update may have joined a forward step that another entry executes too.
  if (std::ranges::any_of(program.routines, [&](const Routine& routine) {
        return routine.after_forward_of && forward_part_updates(program, program.routines[*routine.after_forward_of]);
      }))
    program = lowered(entries, options, false);
  add_pipeline_slots(program);
  bound_steps(program);
  if (!options.fuse) {
    plan_memory(program, options.share_memory);
    return program;
  }
  if (!calls_other_hosts(program)) return overlapped(std::move(program), options);
  Program within = overlapped_by_turns(program, false, options);
  if (Program tried = program; !start_in_last_turn(tried, true)) return within;
  Program earlier = overlapped_by_turns(std::move(program), true, options);
  return pays(within, earlier, options) ? earlier : within;
}

}  // namespace mesh
