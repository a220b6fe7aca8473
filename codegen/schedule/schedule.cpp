#include "codegen/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace mesh {

namespace {

constexpr std::array<std::string_view, 13> names = {
    "", "F", "R", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};

// Takes the number that the text begins with off it.
std::optional<int32_t> take_number(std::string_view& text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(end - text.data());
  return number;
}

constexpr bool is_of_micro_batch(ActionKind kind) { return is_computation(kind) || is_communication(kind); }

}  // namespace

std::string to_text(const Action& action) {
  if (action.kind == ActionKind::idle) return "";
  const std::string text = fmt::format("{}{}", action.stage, names[static_cast<size_t>(action.kind)]);
  return is_of_micro_batch(action.kind) ? text + std::to_string(action.micro_batch) : text;
}

std::string row_text(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions)
    if (action.kind != ActionKind::idle) text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

std::optional<Action> parse_action(std::string_view text) {
  if (text.empty()) return Action{};
  const std::optional<int32_t> stage = take_number(text);
  if (!stage) return std::nullopt;
  const size_t end = std::min(text.find_first_of("0123456789"), text.size());
  const auto* const name = std::ranges::find(names, text.substr(0, end));
  if (name == names.end() || name == names.begin()) return std::nullopt;
  const auto kind = static_cast<ActionKind>(name - names.begin());
  text.remove_prefix(end);
  if (!is_of_micro_batch(kind)) return text.empty() ? std::optional<Action>({kind, *stage, -1}) : std::nullopt;
  const std::optional<int32_t> micro_batch = take_number(text);
  if (!micro_batch || !text.empty()) return std::nullopt;
  return Action{kind, *stage, *micro_batch};
}

std::vector<int> PipelineSchedule::rank_of_stage() const {
  std::vector<int> result(stages, -1);
  for (size_t rank = ranks.size(); rank-- > 0;)
    for (const Action& action : ranks[rank])
      if (is_computation(action.kind)) result[action.stage] = static_cast<int>(rank);
  return result;
}

int32_t PipelineSchedule::stage_on(int rank, int32_t number) const {
  const std::vector<int> home = rank_of_stage();
  for (int32_t stage = 0; stage < stages; ++stage)
    if (home[stage] == rank && number-- == 0) return stage;
  return -1;
}

bool PipelineSchedule::has_communication() const {
  return std::ranges::any_of(ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, is_communication, &Action::kind);
  });
}

bool PipelineSchedule::has(ActionKind kind) const {
  return std::ranges::any_of(ranks, [&](const std::vector<Action>& actions) {
    return std::ranges::find(actions, kind, &Action::kind) != actions.end();
  });
}

bool PipelineSchedule::recomputes_all() const {
  int64_t forward = 0, again = 0;
  for (const std::vector<Action>& actions : ranks) {
    forward += std::ranges::count(actions, ActionKind::forward, &Action::kind);
    again += std::ranges::count(actions, ActionKind::recompute, &Action::kind);
  }
  return forward == again;
}

std::optional<Message> message_of(const Action& action, const std::vector<int>& rank_of_stage) {
  const bool forward = action.kind == ActionKind::forward;
  if (!forward && !gives_gradient(action.kind)) return std::nullopt;
  const int32_t reader = action.stage + (forward ? 1 : -1);
  if (reader < 0 || reader >= static_cast<int32_t>(rank_of_stage.size())) return std::nullopt;
  if (rank_of_stage[reader] == rank_of_stage[action.stage]) return std::nullopt;
  return Message{{forward ? ActionKind::send_forward : ActionKind::send_backward, action.stage, action.micro_batch},
                 {forward ? ActionKind::receive_forward : ActionKind::receive_backward, reader, action.micro_batch},
                 rank_of_stage[reader]};
}

int32_t givers_on(int rank, bool forward, const std::vector<int>& rank_of_stage, StageRange range) {
  const ActionKind kind = forward ? ActionKind::forward : ActionKind::backward;
  int32_t count = 0;
  for (int32_t stage = 0; stage < static_cast<int32_t>(rank_of_stage.size()); ++stage)
    if (rank_of_stage[stage] == rank && range.has(stage) && range.has(forward ? stage + 1 : stage - 1) &&
        message_of({kind, stage, 0}, rank_of_stage))
      ++count;
  return count;
}

std::optional<Action> receive_for(const Action& action, const std::vector<int>& rank_of_stage) {
  const bool forward = action.kind == ActionKind::forward;
  if (!forward && !gives_gradient(action.kind)) return std::nullopt;
  const int32_t giver = action.stage + (forward ? -1 : 1);
  if (giver < 0 || giver >= static_cast<int32_t>(rank_of_stage.size())) return std::nullopt;
  if (rank_of_stage[giver] == rank_of_stage[action.stage]) return std::nullopt;
  return Action{forward ? ActionKind::receive_forward : ActionKind::receive_backward, action.stage, action.micro_batch};
}

}  // namespace mesh
