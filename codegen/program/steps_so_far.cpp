#include "codegen/program/steps_so_far.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace mesh {

namespace {

using Places = std::vector<size_t>;

void insert(Places& places, size_t at) {
  const auto found = std::ranges::lower_bound(places, at);
  if (found == places.end() || *found != at) places.insert(found, at);
}

void erase(Places& places, size_t at) {
  const auto found = std::ranges::lower_bound(places, at);
  if (found != places.end() && *found == at) places.erase(found);
}

}  // namespace

bool is_number(const Nest& nest) {
  return nest.outer.empty() && std::ranges::all_of(nest.passes, [](const Pass& pass) { return pass.inner.empty(); });
}

void StepsSoFar::note(size_t at, Index& index) const {
  for (const uint32_t read : sets_[at].reads) insert(index.users[read].readers, at);
  for (const uint32_t written : sets_[at].writes) insert(index.users[written].writers, at);
  if (is_nest(at) && is_number(nest(at))) insert(index.numbers, at);
}

void StepsSoFar::forget(size_t at, Index& index) const {
  for (const uint32_t read : sets_[at].reads) erase(index.users[read].readers, at);
  for (const uint32_t written : sets_[at].writes) erase(index.users[written].writers, at);
  erase(index.numbers, at);
}

void StepsSoFar::note(size_t at) {
  note(at, all_);
  if (is_free_[at]) note(at, free_);
  if (steps_[at]->part != Part::forward) insert(others_, at);
}

void StepsSoFar::forget(size_t at) {
  forget(at, all_);
  if (is_free_[at]) forget(at, free_);
  erase(others_, at);
}

void StepsSoFar::append(Step step) {
  sets_.push_back(sets_of(program_, step));
  steps_.emplace_back(std::move(step));
  is_free_.push_back(is_nest(last()));
  if (!is_nest(last())) last_call_ = last();
  note(last());
}

void StepsSoFar::change(size_t at, const std::function<void(Step&)>& edit) {
  forget(at);
  edit(*steps_[at]);
  sets_[at] = sets_of(program_, *steps_[at]);
  note(at);
}

Step StepsSoFar::take(size_t at) {
  forget(at);
  Step taken = std::move(*steps_[at]);
  steps_[at].reset();
  return taken;
}

Steps StepsSoFar::take_all() {
  Steps all;
  for (std::optional<Step>& step : steps_)
    if (step) all.push_back(std::move(*step));
  return all;
}

void StepsSoFar::hold_up(size_t at) {
  forget(at, free_);
  is_free_[at] = false;
}

std::optional<size_t> StepsSoFar::last_in_the_way(const StepSets& own) const {
  std::optional<size_t> last;
  const auto count = [&](const Places& places) {
    if (!places.empty() && (!last || *last < places.back())) last = places.back();
  };
  for (const uint32_t read : own.reads)
    if (const auto found = all_.users.find(read); found != all_.users.end()) count(found->second.writers);
  for (const uint32_t written : own.writes)
    if (const auto found = all_.users.find(written); found != all_.users.end()) {
      count(found->second.readers);
      count(found->second.writers);
    }
  return last;
}

bool StepsSoFar::is_held_up(size_t at) const {
  const auto meets = [&](const Places& places) {
    const auto next = std::ranges::upper_bound(places, at);
    return next != places.end() && *next < last();
  };
  const auto is_read_here = [&](uint32_t memory) { return meets(all_.users.at(memory).readers); };
  const auto is_written_here = [&](uint32_t memory) { return meets(all_.users.at(memory).writers); };
  return std::ranges::any_of(sets_[at].reads, is_written_here) ||
         std::ranges::any_of(sets_[at].writes, is_written_here) || std::ranges::any_of(sets_[at].writes, is_read_here);
}

Places StepsSoFar::from(size_t begin, const Places& places) {
  Places found(std::ranges::lower_bound(places, begin), places.end());
  std::ranges::reverse(found);
  return found;
}

Places StepsSoFar::sharing(const StepSets& below, size_t begin, const Index& index) const {
  Places found;
  const auto add = [&](uint32_t memory, Places Users::*users) {
    const auto of = index.users.find(memory);
    if (of == index.users.end()) return;
    const Places& places = of->second.*users;
    std::copy_if(std::ranges::lower_bound(places, begin), places.end(), std::back_inserter(found),
                 [&](size_t at) { return is_nest(at) && !is_number(nest(at)); });
  };
  const auto is_array = [&](uint32_t memory) { return !program_.buffers[memory].dims.empty(); };
  for (const uint32_t read : below.reads) {
    add(read, &Users::writers);
    if (is_array(read)) add(read, &Users::readers);
  }
  for (const uint32_t written : below.writes)
    if (is_array(written)) add(written, &Users::writers);
  std::ranges::sort(found, std::greater{});
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace mesh
