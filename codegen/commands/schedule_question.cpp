#include "codegen/commands/schedule_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "codegen/commands/command.h"
#include "codegen/schedule/checked_file.h"
#include "codegen/schedule/progress.h"
#include "frontend/suggest.h"

namespace mesh {

namespace {

constexpr int64_t most_actions = 4'000'000;

/// What one micro-batch's pass over a rank takes more of, by letter.
double* cost_named(StageCosts& costs, std::string_view letter) {
  if (letter == "F") return &costs.forward;
  if (letter == "I") return &costs.input_gradient;
  if (letter == "W") return &costs.weight_gradient;
  if (letter == "R") return &costs.recompute;
  return nullptr;
}

std::vector<double> parse_numbers(const std::string& whole, std::string_view text) {
  std::vector<double> numbers;
  for (;;) {
    const size_t colon = std::min(text.find(':'), text.size());
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + colon, number);
    if (error != std::errc() || end != text.data() + colon || !std::isfinite(number) || number < 0)
      throw UsageError(fmt::format("--cost {}: expected a number of at least 0, or one a rank as in I=1:1:1:2", whole));
    numbers.push_back(number);
    if (colon == text.size()) return numbers;
    text.remove_prefix(colon + 1);
  }
}

std::optional<AskedSchedule> read_file(const ScheduleArguments& asked, SourceMap& sources, DiagnosticSink& sink) {
  if (asked.ranks != 0 || asked.micro_batches != 0 || asked.chunks != 0)
    throw UsageError("a file says its own stages and micro-batches: leave --stages, --microbatches and --chunks out");
  std::optional<CheckedSchedule> checked = checked_schedule(asked.what, {}, sources, sink);
  if (!checked) return std::nullopt;
  return AskedSchedule{asked.what, with_recompute(std::move(checked->schedule), asked.remat), checked->slots};
}

}  // namespace

AskedSchedule make_named(const NamedSchedule& named, const ScheduleArguments& asked) {
  if (asked.ranks < 1 || asked.micro_batches < 1)
    throw UsageError(
        fmt::format("{} needs --stages and --microbatches, both at least 1, as in `meshc schedule {} "
                    "--stages 4 --microbatches 8`",
                    named.name, named.name));
  const int32_t chunks = asked.chunks == 0 ? named.chunks : asked.chunks;
  if (chunks < 1 || (chunks != named.chunks && !named.other_chunks))
    throw UsageError(
        fmt::format("{} has {} chunk{} on each rank, not {}: leave --chunks out, or choose interleaved, "
                    "looped_bfs or circular",
                    named.name, named.chunks, named.chunks == 1 ? "" : "s", chunks));
  if (int64_t{3} * asked.ranks * chunks * asked.micro_batches > most_actions)
    throw UsageError(fmt::format("{} stages of {} micro-batches make more than {} actions: take fewer",
                                 int64_t{asked.ranks} * chunks, asked.micro_batches, most_actions));
  PipelineSchedule schedule = named.make({asked.ranks, asked.micro_batches, chunks});
  const int32_t slots = least_slots(schedule);
  return {named.name, with_recompute(std::move(schedule), asked.remat), slots};
}

std::optional<AskedSchedule> find_asked(const ScheduleArguments& asked, SourceMap& sources, DiagnosticSink& sink) {
  if (const NamedSchedule* const named = find_schedule(asked.what)) return make_named(*named, asked);
  if (asked.what.find_first_of("./") != std::string::npos) return read_file(asked, sources, sink);
  std::vector<std::string> names;
  for (const NamedSchedule& one : named_schedules()) names.emplace_back(one.name);
  const std::optional<std::string> near = did_you_mean(asked.what, names);
  throw UsageError(fmt::format("there is no schedule `{}`{} There are {}; or give a file NAME.csv", asked.what,
                               near ? fmt::format("; did you mean `{}`?", *near) : ".", names_of_schedules()));
}

ScheduleCosts parse_costs(const std::vector<std::string>& texts, size_t ranks) {
  ScheduleCosts costs;
  costs.ranks.resize(ranks);
  std::set<std::string> given;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos)
      throw UsageError(fmt::format("--cost {}: expected KIND=NUMBER, as in F=1,I=1,W=1,R=0,latency=0", text));
    const std::string kind = text.substr(0, equals);
    const std::vector<double> numbers = parse_numbers(text, std::string_view(text).substr(equals + 1));
    if (!given.insert(kind).second) throw UsageError(fmt::format("--cost {}: {} is given twice", text, kind));
    if (kind == "latency" && numbers.size() == 1) {
      costs.latency = numbers[0];
      continue;
    }
    if (!cost_named(costs.ranks.front(), kind))
      throw UsageError(fmt::format("--cost {}: there is no cost `{}`; F, I, W, R and latency are there{}", text, kind,
                                   kind == "B" ? ", and B takes I + W" : ""));
    if (numbers.size() != 1 && numbers.size() != ranks)
      throw UsageError(
          fmt::format("--cost {}: {} numbers for {} ranks: give one, or one for each", text, numbers.size(), ranks));
    for (size_t rank = 0; rank < ranks; ++rank)
      *cost_named(costs.ranks[rank], kind) = numbers[numbers.size() == 1 ? 0 : rank];
  }
  return costs;
}

}  // namespace mesh
