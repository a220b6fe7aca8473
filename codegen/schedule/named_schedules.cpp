#include "codegen/schedule/named_schedules.h"

#include <algorithm>
#include <array>

namespace mesh {

namespace {

constexpr std::array<NamedSchedule, 9> all = {{
    {"gpipe", "all forward passes, then all backward ones", 1, false, make_gpipe},
    {"1f1b", "one forward, one backward: few micro-batches in flight", 1, false, make_1f1b},
    {"eager_1f1b", "1f1b that runs ahead far enough to hide messages", 1, false, make_eager_1f1b},
    {"interleaved", "1f1b over several chunks a rank: a bubble shorter by their number", 2, true, make_interleaved},
    {"looped_bfs", "chunk by chunk, all micro-batches through each", 2, true, make_looped_bfs},
    {"circular", "the order of looped_bfs, for stages that are all alike", 2, true, make_looped_bfs},
    {"zb_h1", "1f1b with the weights' gradients in the bubble", 1, false, make_zb_h1},
    {"zb_h2", "zb_h1 that runs twice as far ahead: ranks are idle at the ends of the step alone", 1, false, make_zb_h2},
    {"zb_v", "nearly no bubble, stages laid in a V; two chunks a rank", 2, false, make_zb_v},
}};

}  // namespace

std::span<const NamedSchedule> named_schedules() { return all; }

std::string names_of_schedules() {
  std::string names;
  for (const NamedSchedule& one : named_schedules()) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

const NamedSchedule* find_schedule(std::string_view name) {
  const auto* const found = std::ranges::find(all, name, &NamedSchedule::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace mesh
