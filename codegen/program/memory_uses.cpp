#include "codegen/program/memory_uses.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/walk.h"

namespace mesh {

MemoryUses::MemoryUses(Program& program)
    : program_(&program), readers_(program.buffers.size()), writers_(program.buffers.size()) {
  for (Routine& routine : program.routines)
    for_each_step(routine.steps, [&](Step& step) {
      if (has_bodies(step)) note_bodies(step);
      else add(step);
    });
}

void MemoryUses::note_bodies(Step& step) {
  for (const Steps* body : bodies(step))
    for (const Step& inner : *body) around_[&inner] = &step;
}

uint32_t MemoryUses::root(const Access& access) const { return storage(*program_, access.buffer).index; }

const std::vector<Step*>& MemoryUses::readers(const Access& access) const { return readers_[root(access)]; }
const std::vector<Step*>& MemoryUses::writers(const Access& access) const { return writers_[root(access)]; }

std::vector<Step*> MemoryUses::users(const Access& access) const {
  std::vector<Step*> users = readers(access);
  for (Step* step : writers(access))
    if (std::ranges::find(users, step) == users.end()) users.push_back(step);
  return users;
}

int MemoryUses::times_in(const Step& step, const Access& memory) const {
  int times = 0;
  for_each_access(step, [&](const Access& access, Use) { times += root(access) == root(memory); });
  return times;
}

std::optional<size_t> MemoryUses::place(const Steps& steps, const Step& step) const {
  const std::less<const Step*> before;
  for (const Step* one = &step;;) {
    if (!before(one, steps.data()) && before(one, steps.data() + steps.size()))
      return static_cast<size_t>(one - steps.data());
    one = around(*one);
    if (one == nullptr) return {};
  }
}

const Step* MemoryUses::around(const Step& step) const {
  const auto found = around_.find(&step);
  return found == around_.end() ? nullptr : found->second;
}

std::vector<LoopId> MemoryUses::loops_around(const Step& step) const {
  std::vector<LoopId> loops;
  for (const Step* one = around(step); one != nullptr; one = around(*one))
    if (const auto* loop = std::get_if<ForStep>(&one->what)) loops.push_back(loop->loop);
  return loops;
}

std::vector<size_t> MemoryUses::places(const Steps& steps, const std::vector<Step*>& of) const {
  std::vector<size_t> found;
  for (const Step* step : of)
    if (const std::optional<size_t> at = place(steps, *step)) found.push_back(*at);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<size_t> MemoryUses::readers(const Steps& steps, const Access& access) const {
  return places(steps, readers(access));
}

std::vector<size_t> MemoryUses::writers(const Steps& steps, const Access& access) const {
  return places(steps, writers(access));
}

std::vector<size_t> MemoryUses::users(const Steps& steps, const Access& access) const {
  std::vector<size_t> users;
  std::ranges::set_union(readers(steps, access), writers(steps, access), std::back_inserter(users));
  return users;
}

bool MemoryUses::only_here(const Steps& steps, const Access& access) const {
  const auto is_alike = [&](const Step* step) {
    bool alike = place(steps, *step).has_value();
    for_each_access(
        *step, [&](const Access& other, Use) { alike = alike && (other == access || root(other) != root(access)); });
    return alike;
  };
  return std::ranges::all_of(readers(access), is_alike) && std::ranges::all_of(writers(access), is_alike);
}

void MemoryUses::add(Step& step) {
  const StepSets sets = sets_of(*program_, step);
  for (const uint32_t buffer : sets.reads) readers_[buffer].push_back(&step);
  for (const uint32_t buffer : sets.writes) writers_[buffer].push_back(&step);
}

void MemoryUses::forget(Step& step) {
  const StepSets sets = sets_of(*program_, step);
  for (const uint32_t buffer : sets.reads) std::erase(readers_[buffer], &step);
  for (const uint32_t buffer : sets.writes) std::erase(writers_[buffer], &step);
}

void MemoryUses::change(Step& step, const std::function<void()>& edit) {
  forget(step);
  edit();
  add(step);
}

void MemoryUses::removed(Step& step) {
  forget(step);
  removed_.insert(&step);
}

void MemoryUses::move_on(Steps& steps, size_t from, size_t to) {
  struct Place {
    std::vector<Step*>* users;
    size_t at;
  };
  std::vector<Place> own;  // where the step stood among the users of what it uses
  const auto leave = [&](std::vector<Step*>& users) {
    const auto at = std::ranges::find(users, &steps[from]);
    own.push_back({&users, static_cast<size_t>(at - users.begin())});
    users.erase(at);
  };
  const StepSets sets = sets_of(*program_, steps[from]);
  for (const uint32_t buffer : sets.reads) leave(readers_[buffer]);
  for (const uint32_t buffer : sets.writes) leave(writers_[buffer]);
  const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(from);
  std::rotate(begin, begin + 1, steps.begin() + static_cast<std::ptrdiff_t>(to) + 1);
  for (size_t at = from; at < to; ++at) {
    Step *const now = &steps[at], *const before = now + 1;
    if (has_bodies(*now)) {
      note_bodies(*now);
      continue;
    }
    const StepSets others = sets_of(*program_, *now);
    for (const uint32_t buffer : others.reads) std::ranges::replace(readers_[buffer], before, now);
    for (const uint32_t buffer : others.writes) std::ranges::replace(writers_[buffer], before, now);
  }
  for (auto [users, at] : own) {
    const auto stands_before = [&](const Step* user) {
      const std::optional<size_t> there = place(steps, *user);
      return there && *there < to;
    };
    while (at < users->size() && stands_before((*users)[at])) ++at;
    users->insert(users->begin() + static_cast<std::ptrdiff_t>(at), &steps[to]);
  }
}

void MemoryUses::use_instead(const Access& from, const Access& to) {
  change_users(from, to, [&](Access& access) {
    if (access == from) access = to;
  });
}

void MemoryUses::use_instead(BufferId from, const Access& to) {
  change_users({from, {}}, to, [&](Access& access) {
    if (access.buffer != from) return;
    access.buffer = to.buffer;
    access.turns.insert(access.turns.begin(), to.turns.begin(), to.turns.end());
    for (IndexMap& map : access.maps) map.position += to.turns.size();
  });
}

void MemoryUses::change_users(const Access& from, const Access& to, const std::function<void(Access&)>& edit) {
  if (program_->buffer(storage(*program_, from.buffer)).space == Space::arena)
    program_->buffer(storage(*program_, to.buffer)).space = Space::arena;
  for (Step* step : users(from))
    change(*step, [&] { for_each_access(*step, [&](Access& access, Use) { edit(access); }); });
}

void MemoryUses::sweep() {
  for_each_list(*program_,
                [&](Steps& steps) { std::erase_if(steps, [&](const Step& step) { return is_removed(step); }); });
}

bool may_move(const Program& program, const MemoryUses& uses, const Steps& steps, size_t from, size_t to) {
  const auto free = [&](const std::vector<Step*>& users) {
    return std::ranges::none_of(users, [&](const Step* user) {
      const std::optional<size_t> at = uses.place(steps, *user);
      return at && *at != from && std::min(from, to) <= *at && *at <= std::max(from, to);
    });
  };
  const StepSets own = sets_of(program, steps[from]);
  const auto memory = [](uint32_t buffer) { return Access{BufferId{buffer}, {}}; };
  return std::ranges::all_of(own.reads, [&](uint32_t read) { return free(uses.writers(memory(read))); }) &&
         std::ranges::all_of(own.writes, [&](uint32_t written) {
           return free(uses.readers(memory(written))) && free(uses.writers(memory(written)));
         });
}

}  // namespace mesh
