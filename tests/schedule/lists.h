// lists.h: schedules as tests write them: a text a rank, "0F0 0F1 . 0B0", with "." where it waits.
#pragma once
#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/schedule/named_schedules.h"

namespace mesh::tests {

inline std::vector<Action> list(const std::string& text) {
  std::vector<Action> actions;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto action = parse_action(word == "." ? "" : word);
    if (!action) throw std::invalid_argument(word);
    actions.push_back(*action);
  }
  return actions;
}

inline PipelineSchedule schedule(const std::vector<std::string>& ranks) {
  PipelineSchedule result;
  for (const std::string& text : ranks) {
    result.ranks.push_back(list(text));
    for (const Action& action : result.ranks.back()) {
      result.stages = std::max(result.stages, action.stage + 1);
      result.micro_batches = std::max(result.micro_batches, action.micro_batch + 1);
    }
  }
  return result;
}

inline std::string text(const std::vector<Action>& actions) {
  std::string result;
  for (const Action& action : actions)
    result += (result.empty() ? "" : " ") + (action.kind == ActionKind::idle ? "." : to_text(action));
  return result;
}

inline std::vector<std::string> texts(const PipelineSchedule& of) {
  std::vector<std::string> result;
  for (const std::vector<Action>& actions : of.ranks) result.push_back(text(actions));
  return result;
}

/// Of the name; chunks where it takes another number than its own.
inline PipelineSchedule named(const std::string& name, int32_t ranks, int32_t micro_batches, int32_t chunks = 0) {
  const NamedSchedule* const found = find_schedule(name);
  if (!found) throw std::invalid_argument(name);
  return found->make({ranks, micro_batches, chunks == 0 ? found->chunks : chunks});
}

}  // namespace mesh::tests
