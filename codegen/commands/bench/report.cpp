#include "codegen/commands/bench/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/commands/table.h"
#include "codegen/layout/cost.h"
#include "meshrt/log.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;

constexpr double much_longer = 1.25;
constexpr size_t most_lines = 5, most_advice = 5, most_ranks = 8;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string mesh_text(const MeshShape& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("{}", fmt::join(axes, ","));
}

/// Where the time of a step goes, a row a part: rank 0 with shares, then the others.
std::string table_of_parts(const Trial& trial) {
  const size_t ranks = std::min(most_ranks, trial.ranks.size());
  std::vector<std::vector<std::string>> rows{{"", "rank 0", "share"}};
  for (size_t rank = 1; rank < ranks; ++rank) rows[0].push_back(fmt::format("rank {}", rank));
  for (const auto& [name, part] : step_parts) {
    rows.push_back(
        {name, time_text(trial.parts.*part), fmt::format("{:.1f} %", percent(trial.parts.*part, trial.parts.total()))});
    if (part == &StepParts::data) continue;
    for (size_t rank = 1; rank < ranks; ++rank) rows.back().push_back(time_text(trial.ranks[rank].*part));
  }
  std::string text = in_columns(rows);
  if (trial.ranks.size() > ranks) {
    const auto [longest, shortest] = trial.unlike_ranks();
    text += fmt::format("of {} ranks rank {} computes longest, {}, and rank {} shortest, {}\n", trial.ranks.size(),
                        longest, time_text(trial.ranks[longest].computing()), shortest,
                        time_text(trial.ranks[shortest].computing()));
  }
  return text;
}

std::string waited_text(const StepTime& time) {
  if (time.bubble > 0)
    return fmt::format("{} for the network, {} for other stages", time_text(time.exposed), time_text(time.bubble));
  return fmt::format("{} waiting", time_text(time.exposed));
}

/// Why the numbers may not be what they seem.
std::vector<std::string> doubts(const Benched& found) {
  std::vector<std::string> texts;
  const auto [least, most] = std::ranges::minmax(found.trial.seconds);
  if (most > much_longer * least)
    texts.emplace_back("steps take unlike times: does the machine do other work besides?");
  if (found.planned.utilisation(found.trial.median()) > 1)
    texts.push_back(fmt::format("no step can do more than the ranks can multiply: {}",
                                found.measured_machine
                                    ? "other work slowed the machine while it was measured; try again"
                                    : "the machine is faster than its description says"));
  return texts;
}

}  // namespace

std::string bench_text(const Benched& found, bool colored) {
  const Trial& trial = found.trial;
  const OnMachine& planned = found.planned;
  const Layout& layout = planned.compiled.sharded().layout;
  const double step = trial.median();
  const auto head = [&](const std::string& text) {
    return colored ? fmt::format("\n\033[1m{}\033[0m\n", text) : fmt::format("\n{}\n", text);
  };
  const auto [least, most] = std::ranges::minmax(trial.seconds);
  const std::string where =
      layout.name.empty() ? "one rank" : fmt::format("layout {} on {}", layout.name, mesh_text(layout.mesh));
  std::vector<std::vector<std::string>> facts{
      {"a step", fmt::format("{}  ({} to {}, median of {})", time_text(step), time_text(least), time_text(most),
                             trial.seconds.size())},
      {"predicted", fmt::format("{}: {} computing, {}", time_text(planned.time.total()),
                                time_text(planned.time.compute), waited_text(planned.time))},
      {"model flops", fmt::format("{:.4g} G a step: {:.1f} % of what the {} can multiply", planned.model_flops * 1e-9,
                                  100 * planned.utilisation(step),
                                  planned.ranks() == 1 ? "rank" : fmt::format("{} ranks", planned.ranks()))},
      {"memory of a rank", fmt::format("{}, {} planned", meshrt::bytes_text(trial.memory),
                                       meshrt::bytes_text(planned.compiled.program.memory.peak()))},
      {"sent by a rank", fmt::format("{} a step", meshrt::bytes_text(trial.bytes))},
      {"machine", fmt::format("{}: {:.1f} Gflop/s and {:.1f} GB/s a rank{}", planned.machine().name,
                              planned.flops_per_second() * 1e-9, planned.machine().memory.of_most(),
                              found.measured_machine ? ", measured" : "")}};
  std::string text =
      fmt::format("{}, {}, {}\n", found.program, where, trial.random_data ? "random data" : "the data of the run file");
  text += in_columns(facts);
  for (const std::string& doubt : doubts(found)) text += doubt + "\n";
  text += head("where a step goes") + table_of_parts(trial);
  if (!trial.lines.empty()) text += head("lines of the spec that cost rank 0 most");
  std::vector<std::vector<std::string>> lines{{"", "", ""}};
  for (const CostlyLine& line : trial.lines) {
    if (lines.size() > most_lines) break;
    lines.push_back(
        {time_text(line.seconds), fmt::format("{:.1f} %", 100 * line.share), line.place + "  " + line.text});
  }
  lines.erase(lines.begin());
  text += in_columns(lines);
  text += head("what would help most");
  if (found.advice.empty()) text += "nothing that is known here would save a hundredth of a step\n";
  for (size_t i = 0; i < std::min(most_advice, found.advice.size()); ++i) {
    const Advice& one = found.advice[i];
    text +=
        fmt::format("{}. {}{} ({:.0f} %): {}\n   {}\n", i + 1, one.at_most ? "at most " : "", time_text(one.seconds),
                    percent(one.seconds, one.at_most ? step : planned.time.total()), one.what, one.how);
  }
  return text;
}

Json bench_json(const Benched& found) {
  const Trial& trial = found.trial;
  const OnMachine& planned = found.planned;
  const Layout& layout = planned.compiled.sharded().layout;
  Json mesh = Json::object(), breakdown = Json::object(), ranks = Json::array(), lines = Json::array(),
       advice = Json::array();
  for (const MeshAxis& axis : layout.mesh.axes) mesh[axis.name] = axis.size;
  for (const auto& [name, part] : step_parts) breakdown[name] = trial.parts.*part;
  for (const StepParts& one : trial.ranks) {
    Json parts = Json::object();
    for (const auto& [name, part] : step_parts)
      if (part != &StepParts::data) parts[name] = one.*part;
    ranks.push_back(parts);
  }
  for (const CostlyLine& line : trial.lines)
    lines.push_back({{"place", line.place}, {"text", line.text}, {"seconds", line.seconds}, {"share", line.share}});
  for (const Advice& one : found.advice)
    advice.push_back({{"seconds", one.seconds}, {"at_most", one.at_most}, {"what", one.what}, {"how", one.how}});
  return {{"schema", 1},
          {"program", found.program},
          {"layout", layout.name},
          {"mesh", mesh},
          {"random_data", trial.random_data},
          {"machine",
           {{"name", planned.machine().name},
            {"measured", found.measured_machine},
            {"flops_per_second", planned.flops_per_second()},
            {"memory_gbs", planned.machine().memory.of_most()}}},
          {"steps", trial.seconds},
          {"seconds_per_step", trial.median()},
          {"model_flops", planned.model_flops},
          {"utilisation", planned.utilisation(trial.median())},
          {"doubts", doubts(found)},
          {"breakdown", breakdown},
          {"ranks", ranks},
          {"predicted",
           {{"seconds", planned.time.total()},
            {"compute", planned.time.compute},
            {"exposed", planned.time.exposed},
            {"bubble", planned.time.bubble}}},
          {"memory_bytes", trial.memory},
          {"bytes_sent", trial.bytes},
          {"lines", lines},
          {"advice", advice}};
}

}  // namespace mesh
