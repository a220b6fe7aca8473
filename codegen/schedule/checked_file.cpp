#include "codegen/schedule/checked_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/schedule/check_schedule.h"
#include "codegen/schedule/named_schedules.h"
#include "codegen/schedule/progress.h"

namespace mesh {

namespace {

constexpr size_t most_told = 10;  // mistakes of one file

void tell(const ScheduleMistake& mistake, const ReadSchedule& read, DiagnosticSink& sink) {
  const bool placed = mistake.rank >= 0;
  const Span place = !placed          ? Span{}
                     : mistake.action ? read.places[mistake.rank][*mistake.action]
                                      : read.lines[mistake.rank];
  auto error = sink.error("E0702", place, "{}", mistake.message);
  if (placed) error.here("rank {}", mistake.rank);
  error.help(
      "each stage lies on one rank, and has for each micro-batch an F, then a B, or an I and a W after it; a file with "
      "sends and receives has all of them");
}

/// The last steps that all could make, and the actions at which they stand.
std::string steps_before(const PipelineSchedule& schedule, const std::vector<Wait>& waits) {
  constexpr size_t shown = 4;
  PipelineSchedule made = schedule;
  for (const Wait& wait : waits) made.ranks[wait.rank].resize(wait.at);
  const std::vector<std::vector<Action>> steps = steps_of(made);
  const size_t first = steps.size() - std::min(steps.size(), shown);
  std::string text = "what the ranks have done, step by step:";
  const auto row = [&](const std::string& head, auto&& cell) {
    text += fmt::format("\n  {:<10}", head);
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) text += fmt::format(" {:<12}", cell(rank));
    text.erase(text.find_last_not_of(' ') + 1);
  };
  row("", [](size_t rank) { return fmt::format("rank {}", rank); });
  for (size_t step = first; step < steps.size(); ++step)
    row(fmt::format("step {}", step), [&](size_t rank) { return to_text(steps[step][rank]); });
  row("waits at", [&](size_t rank) {
    const auto wait = std::ranges::find(waits, static_cast<int>(rank), &Wait::rank);
    return wait == waits.end() ? std::string() : to_text(schedule.ranks[rank][wait->at]);
  });
  return text;
}

}  // namespace

void tell_deadlock(const ReadSchedule& read, const std::vector<Wait>& waits, DiagnosticSink& sink) {
  const Wait& first = waits.front();
  sink.error("E0703", read.places[first.rank][first.at], "ranks wait for each other for ever")
      .here("rank {} waits here for {} of rank {}", first.rank, to_text(first.awaited), first.on)
      .note("{}", describe_deadlock(read.schedule, waits))
      .note("{}", steps_before(read.schedule, waits))
      .help(
          "a send ends when its receive has begun: put the receive before what its rank waits at, or leave sends and "
          "receives out, which are then added where they cannot meet");
}

std::optional<CheckedSchedule> checked_schedule(const std::string& path, Span asked, SourceMap& sources,
                                                DiagnosticSink& sink) {
  std::string why;
  const std::optional<FileId> known = sources.find(path), file = known ? known : sources.load(path, why);
  if (!file) {
    sink.error("E0701", asked, "cannot read {}: {}", path, why)
        .help("give a file of PyTorch's, or one of {}", names_of_schedules());
    return std::nullopt;
  }
  std::optional<ReadSchedule> read = read_schedule(*file, sources, sink);
  if (!read) return std::nullopt;
  const std::vector<ScheduleMistake> mistakes = check_schedule(read->schedule);
  for (size_t i = 0; i < std::min(mistakes.size(), most_told); ++i) tell(mistakes[i], *read, sink);
  if (!mistakes.empty()) return std::nullopt;
  const int32_t slots = read->schedule.has_communication() ? 1 : least_slots(read->schedule);
  const std::vector<Wait> waits = find_deadlock(read->schedule, {1, slots == 0 ? read->schedule.micro_batches : slots});
  if (waits.empty()) return CheckedSchedule{std::move(*read), slots};
  tell_deadlock(*read, waits, sink);
  return std::nullopt;
}

}  // namespace mesh
