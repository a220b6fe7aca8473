#include "codegen/program/accesses.h"

#include <algorithm>
#include <span>

#include "codegen/program/extent.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

thread_local uint64_t asked = 0;

struct Visit {
  const std::function<void(Access&, Use)>& visit;

  void optional(std::optional<Access>& access, Use use) const {
    if (access) visit(*access, use);
  }
  void operator()(Nest& nest) const {
    for (Pass& pass : nest.passes) for_each_access(pass, visit);
    for (LoopBound& bound : nest.bounds) visit(bound.last, Use::read);
  }
  void operator()(ProductStep& p) const {
    visit(p.a, Use::read);
    visit(p.b, Use::read);
    optional(p.epilogue.bias, Use::read);
    optional(p.epilogue.times, Use::read);
    optional(p.epilogue.plus, Use::read);
    visit(p.c, p.accumulate ? Use::update : Use::write);
    optional(p.epilogue.slope, Use::write);
    optional(p.epilogue.rounded, Use::write);
    optional(p.column_sum, p.accumulate ? Use::update : Use::write);
    for (LoopBound& bound : p.bounds) visit(bound.last, Use::read);
  }
  void operator()(AttentionStep& a) const {
    for (Access* access : {&a.q, &a.k, &a.v}) visit(*access, Use::read);
    if (a.ring) {
      for (auto* places : {&a.ring->k, &a.ring->v})
        for (Access& place : *places) visit(place, Use::write);
      if (a.backward)
        for (auto* places : {&a.ring->d_k, &a.ring->d_v})
          for (Access& place : *places) visit(place, Use::write);
    }
    if (!a.backward) {
      for (Access* access : {&a.out, &a.log_sum}) visit(*access, Use::write);
      return;
    }
    for (Access* access : {&a.out, &a.log_sum, &a.d_out}) visit(*access, Use::read);
    for (Access* access : {&a.d_q, &a.d_k, &a.d_v}) visit(*access, Use::write);
  }
  void operator()(TakeStep& t) const {
    visit(t.table, Use::read);
    visit(t.ids, Use::read);
    visit(t.out, Use::write);
  }
  void operator()(ScatterStep& t) const {
    visit(t.ids, Use::read);
    visit(t.rows, Use::read);
    visit(t.table, t.adds ? Use::update : Use::write);
  }
  void operator()(DefinedStep& s) const {
    for (Access& access : s.reads) visit(access, Use::read);
    for (Access& access : s.writes) visit(access, Use::write);
  }
  void operator()(CollectiveStep& c) const {
    if (c.from == c.to) {  // in place: both stay equal
      visit(c.to, Use::update);
      if (c.from != c.to) c.from = c.to;
      return;
    }
    visit(c.from, Use::read);
    visit(c.to, Use::write);
  }
  void operator()(CombinedStep& c) const {
    for (CollectiveStep& one : c.collectives) (*this)(one);
  }
  void operator()(CopyStep& c) const {
    visit(c.from, Use::read);
    visit(c.to, Use::write);
  }
  void operator()(FillStep& f) const { visit(f.to, Use::write); }
  void operator()(MessageStep& m) const { visit(m.value, m.sends ? Use::read : Use::write); }
  void operator()(UntilStep& u) const { visit(u.done, Use::read); }
  template <HasBodies Kind>
  void operator()(Kind& kind) const {
    for (Steps* body : kind.bodies())
      for (Step& step : *body) for_each_access(step, visit);
  }
};

}  // namespace

void for_each_access(Pass& pass, const std::function<void(Access&, Use)>& visit) {
  for (Scalar& scalar : pass.scalars)
    if (auto* load = std::get_if<Scalar::Load>(&scalar.what)) visit(load->access, Use::read);
  for (Pass::Accumulate& a : pass.accumulates) visit(a.to, a.adds ? Use::update : Use::write);
  for (Pass::Store& s : pass.stores) visit(s.to, Use::write);
}

uint64_t steps_asked() { return asked; }

void for_each_access(Step& step, const std::function<void(Access&, Use)>& visit) {
  ++asked;
  std::visit(Visit{visit}, step.what);
}

void for_each_access(const Step& step, const std::function<void(const Access&, Use)>& visit) {
  ++asked;
  const std::function<void(Access&, Use)> same = [&](Access& access, Use use) { visit(access, use); };
  std::visit(Visit{same}, const_cast<Step&>(step).what);  // the visitor above changes nothing
}

namespace {

/// Whether the two are always in different slots of a buffer, in one turn of the loops around both.
bool lie_apart(const Access& a, const Access& b) {
  if (a.buffer != b.buffer) return false;
  for (size_t k = 0; k < std::min(a.turns.size(), b.turns.size()); ++k) {
    const TurnIndex &one = a.turns[k], &other = b.turns[k];
    if (one.loop != other.loop || one.period != other.period) continue;
    const int64_t between = one.offset - other.offset;
    if (one.period == 0 ? between != 0 : between % one.period != 0) return true;
  }
  return false;
}

}  // namespace

UsedMemory::UsedMemory(const Program& program, const Step& step) : program_(program) {
  for_each_access(step, [&](const Access& access, Use use) {
    uses_[storage(program, access.buffer).index].push_back({access, use});
  });
}

BufferId UsedMemory::in_common(const Step& other) const {
  BufferId both;
  for_each_access(other, [&](const Access& access, Use use) {
    if (both) return;
    const auto own = uses_.find(storage(program_, access.buffer).index);
    if (own != uses_.end() && std::ranges::any_of(own->second, [&](const Used& one) {
          return (use != Use::read || one.use != Use::read) && !lie_apart(one.access, access);
        }))
      both = access.buffer;
  });
  return both;
}

BufferId common_memory(const Program& program, const Step& first, const Step& second) {
  return UsedMemory(program, first).in_common(second);
}

size_t forward_steps(std::span<const Step> steps) {
  const auto is_forward = [](const Step& step) { return part_of(step) == Part::forward; };
  return static_cast<size_t>(std::ranges::find_if_not(steps, is_forward) - steps.begin());
}

bool are_slots_of(std::span<const LoopId> loops, std::span<const TurnIndex> turns) {
  return std::ranges::all_of(turns, [&](const TurnIndex& turn) {
    return turn.loop && turn == TurnIndex{turn.loop} && std::ranges::find(loops, turn.loop) != loops.end();
  });
}

bool forward_part_updates(const Program& program, const Routine& routine) {
  bool updates = false;
  for (const Step& step : std::span(routine.steps).first(forward_steps(routine.steps)))
    for_each_access(step, [&](const Access& access, Use use) {
      updates = updates || (use != Use::read && program.buffer(storage(program, access.buffer)).stored);
    });
  return updates;
}

void for_each_handed_out(Program& program, const std::function<void(BufferId&)>& visit) {
  for (EntryPoint& entry : program.entries) {
    for (Accumulator& one : entry.carried) visit(one.buffer);
    for (BufferId& id : entry.results) visit(id);
    for (EntryPoint::Output& output : entry.outputs) visit(output.buffer);
    for (auto& [name, id] : entry.wanted) visit(id);
  }
  for (BufferId& id : program.kept) visit(id);
}

std::vector<bool> outlive_routine(const Program& program) {
  std::vector<bool> result(program.buffers.size());
  for (size_t i = 0; i < program.buffers.size(); ++i) result[i] = bool(program.buffers[i].stored);
  for_each_handed_out(const_cast<Program&>(program), [&](BufferId& id) { result[id.index] = true; });  // reads alone
  for (const BufferId id : program.kept) result[storage(program, id).index] = true;
  return result;
}

}  // namespace mesh
