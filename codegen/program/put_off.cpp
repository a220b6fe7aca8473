#include "codegen/program/put_off.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "codegen/program/fuse.h"
#include "codegen/program/overlap.h"

namespace mesh {

std::set<size_t> held_up(const Program& program, const ListPlaces& places, const Steps& steps, const Step& by,
                         const UsedMemory& moved, size_t first, size_t end) {
  std::set<size_t> held;
  const auto hold = [&](const Step& step, const UsedMemory& memory, size_t from) {
    for (const size_t one : places.in_the_way(sets_of(program, step)))
      if (from <= one && one < end && memory.in_common(steps[one])) held.insert(one);
  };
  hold(by, moved, first);
  for (const size_t one : held) hold(steps[one], UsedMemory(program, steps[one]), one + 1);  // grows behind `one`
  return held;
}

size_t put_off(const Program& program, Steps& steps, ListPlaces& places, const Step& by, const UsedMemory& moved,
               size_t need) {
  size_t end = need;
  const auto may_move = [](const Step& step) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    return loop ? ends_others(*loop) : std::holds_alternative<Nest>(step.what);
  };
  while (end < steps.size() && may_move(steps[end])) ++end;
  const std::set<size_t> held = held_up(program, places, steps, by, moved, need, end);
  const size_t later = end - held.size();
  if (later == need) return need;
  std::vector<size_t> now(steps.size());
  std::iota(now.begin(), now.end(), size_t{0});
  Steps ordered(end - need);
  for (size_t at = need, free = need, late = later; at < end; ++at) {
    now[at] = held.contains(at) ? late++ : free++;
    ordered[now[at] - need] = std::move(steps[at]);
  }
  std::ranges::move(ordered, steps.begin() + static_cast<std::ptrdiff_t>(need));
  places.rearranged(now);
  return later;
}

}  // namespace mesh
