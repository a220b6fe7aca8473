// schedule.cpp: `meshc schedule`: what each rank of a pipeline does when: the named schedules, files of PyTorch's, and
// the pipelines of specs, checked, timed and drawn.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/enumerator.h"
#include "codegen/commands/options.h"
#include "codegen/commands/schedule_of_spec.h"
#include "codegen/commands/schedule_picture.h"
#include "codegen/commands/schedule_question.h"
#include "codegen/commands/session.h"
#include "codegen/commands/table.h"
#include "codegen/commands/write_file.h"
#include "codegen/schedule/schedule_csv.h"

namespace mesh {

namespace {

struct ScheduleOptions {
  ScheduleArguments arguments;
  SpecOptions spec;
  OutputOptions output;
  std::string svg, trace;  // files
  bool csv = false, communication = false, compare = false;
  std::vector<const CLI::Option*> of_specs, of_schedules;  // that say nothing of the other
};

using Json = nlohmann::ordered_json;

/// UsageError where the costs leave no time that could be shown.
Simulation timed(const AskedSchedule& asked, const ScheduleCosts& costs) {
  Simulation found = simulate(asked.schedule, costs);
  if (!(found.makespan > 0) || !std::isfinite(found.makespan))
    throw UsageError(fmt::format(
        "--cost: a step takes {:g} units of time; it needs a cost above 0, and none that is beyond all numbers",
        found.makespan));
  return found;
}

/// Of all the time of all ranks.
double idle_share(const Simulation& found) {
  double idle = 0;
  for (const double one : found.idle) idle += one;
  return idle / (found.makespan * static_cast<double>(found.idle.size()));
}

std::string as_json(const AskedSchedule& asked, const Simulation& found) {
  Json ranks = Json::array();
  for (const std::vector<Action>& actions : asked.schedule.ranks) {
    Json list = Json::array();
    for (const Action& action : actions) list.push_back(to_text(action));
    ranks.push_back(list);
  }
  return Json({{"schema", 1},
               {"schedule", asked.name},
               {"stages", asked.schedule.stages},
               {"microbatches", asked.schedule.micro_batches},
               {"makespan", found.makespan},
               {"idle_share", idle_share(found)},
               {"idle", found.idle},
               {"peak_in_flight", found.peak_in_flight},
               {"slots", asked.slots},
               {"ranks", ranks}})
             .dump(2) +
         "\n";
}

std::string title_of(const AskedSchedule& asked, const Simulation& found) {
  const size_t ranks = asked.schedule.ranks.size();
  const std::string stages = asked.schedule.stages == static_cast<int32_t>(ranks)
                                 ? fmt::format("{} stages", ranks)
                                 : fmt::format("{} stages on {} ranks", asked.schedule.stages, ranks);
  return fmt::format("{}: {}, {}; {:g} units of time, of which ranks are idle in {:.1f} %", asked.name, stages,
                     micro_batches_text(asked.schedule.micro_batches), found.makespan, 100 * idle_share(found));
}

void print(const AskedSchedule& asked, const Simulation& found, bool colored) {
  constexpr size_t columns = 110;
  fmt::print("{}\n\n{}\n", title_of(asked, found), draw_timeline(found, columns, colored));
  fmt::print("micro-batches in flight at most, by rank: {}\n", fmt::join(found.peak_in_flight, ", "));
  fmt::print("idle, by rank: {}\n", fmt::join(found.idle, ", "));
  if (asked.slots > 1)
    fmt::print("receives to post ahead for each edge, so that ranks do not wait for ever: {}\n", asked.slots);
}

int compare_all(const ScheduleOptions& options) {
  if (!options.svg.empty() || !options.trace.empty())
    throw UsageError("all schedules are compared in a table: leave --svg and --trace out, or name one of them");
  std::vector<std::vector<std::string>> rows{{"schedule", "time", "idle", "in flight", "slots", ""}};
  Json json = Json::array();
  for (const NamedSchedule& named : named_schedules()) {
    ScheduleArguments arguments = options.arguments;
    if (!named.other_chunks) arguments.chunks = 0;
    const AskedSchedule asked = make_named(named, arguments);
    const Simulation found = timed(asked, parse_costs(arguments.costs, asked.schedule.ranks.size()));
    const int peak = *std::ranges::max_element(found.peak_in_flight);
    json.push_back({{"schedule", named.name},
                    {"chunks", asked.schedule.stages / arguments.ranks},
                    {"makespan", found.makespan},
                    {"idle_share", idle_share(found)},
                    {"peak_in_flight", found.peak_in_flight},
                    {"slots", asked.slots}});
    const int32_t chunks = asked.schedule.stages / arguments.ranks;
    rows.push_back({chunks == 1 ? named.name : fmt::format("{}, {} chunks", named.name, chunks),
                    fmt::format("{:g}", found.makespan), fmt::format("{:.1f} %", 100 * idle_share(found)),
                    chunks == 1 ? std::to_string(peak) : fmt::format("{} / {}", peak, chunks),
                    std::to_string(asked.slots), named.meaning});
  }
  if (options.output.json) fmt::print("{}\n", Json({{"schema", 1}, {"schedules", json}}).dump(2));
  else fmt::print("{}", in_columns(rows));
  return exit_ok;
}

/// UsageError where one of the options is given.
void leave_out(const std::vector<const CLI::Option*>& options, const char* why) {
  for (const CLI::Option* one : options)
    if (one->count() > 0) throw UsageError(fmt::format("{}: leave {} out", why, one->get_name()));
}

/// As PyTorch reads it, with `communication` if that is asked for.
std::string csv_of(const PipelineSchedule& schedule, bool communication) {
  const bool add = communication && !schedule.has_communication();
  return to_csv(add ? with_communication(schedule).value() : schedule);
}

int show_of_spec(const ScheduleOptions& options) {
  leave_out(options.of_schedules, "a spec says its own");
  Session session(options.spec, options.output);
  const std::optional<Compiled> compiled = session.compile();
  if (!compiled) return exit_diagnostics;
  const SpecSchedule found(compiled->sharded());
  if (!options.svg.empty()) write_file(options.svg, draw_svg(found.in_microseconds(), found.title()));
  if (!options.trace.empty()) write_file(options.trace, chrome_trace(found.in_microseconds(), 1));
  if (options.compare) fmt::print("{}", compare_schedules(session, *compiled, options.output.json));
  else if (options.csv) fmt::print("{}", csv_of(found.sharded.layout.pipeline.lists, options.communication));
  else if (options.output.json) fmt::print("{}", found.json());
  else fmt::print("{}", found.text(options.output.colored(1)));
  return exit_ok;
}

int show(ScheduleOptions& options) {
  const std::vector<std::string>& given = options.spec.arguments;
  keep_read("--svg", options.svg, given);
  keep_read("--trace", options.trace, given);
  if (std::ranges::any_of(given, [](const std::string& one) { return one.ends_with(".mesh"); }))
    return show_of_spec(options);
  leave_out(options.of_specs, "that is of a spec");
  if (given.size() > 1) throw UsageError("give one schedule, or a spec with files of layouts");
  if (!given.empty()) options.arguments.what = given.front();
  if (options.compare && options.arguments.what.empty()) return compare_all(options);
  if (options.compare || options.arguments.what.empty())
    throw UsageError("give the name of a schedule or a file NAME.csv, or --compare without one");
  Session session(options.output);
  const std::optional<AskedSchedule> asked = find_asked(options.arguments, session.sources, session.sink);
  session.report();
  if (!asked) return exit_diagnostics;
  const Simulation found = timed(*asked, parse_costs(options.arguments.costs, asked->schedule.ranks.size()));
  if (!options.svg.empty()) write_file(options.svg, draw_svg(found, title_of(*asked, found)));
  if (!options.trace.empty()) write_file(options.trace, chrome_trace(found, 1000));
  if (options.csv) fmt::print("{}", csv_of(asked->schedule, options.communication));
  else if (options.output.json) fmt::print("{}", as_json(*asked, found));
  else print(*asked, found, options.output.colored(1));
  return exit_ok;
}

}  // namespace

Command schedule_command() {
  return {
      "schedule",
      "show what each rank of a pipeline does when",
      "NAME is one of gpipe, 1f1b, eager_1f1b, interleaved, looped_bfs, circular, zb_h1, zb_h2, zb_v. FILE.csv has a\n"
      "line a rank and a cell an action, as PyTorch's schedules do; it is checked first: exit code 1 where a\n"
      "micro-batch misses a stage, an action comes before what it needs, or ranks would wait for each other for\n"
      "ever. A cost is that of all of a rank's work for one micro-batch; B, a whole backward pass, takes I + W.\n"
      "SPEC is drawn with the predicted times of its stages, and `--compare` plans it under every schedule.",
      {{"meshc schedule 1f1b --stages 4 --microbatches 8", "drawn over time, with the share of idle time"},
       {"meshc schedule interleaved --stages 4 --microbatches 8 --chunks 2 --cost F=1:1:1:2,latency=0.25 --json",
        "the last rank slower, and messages that take time"},
       {"meshc schedule --compare --stages 4 --microbatches 16", "all of them: time, idle time, memory"},
       {"meshc schedule mine.csv --svg mine.svg", "a file of PyTorch's, checked and drawn"},
       {"meshc schedule gpt.mesh --layout pipe --compare", "what each would take for this spec: time, memory"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<ScheduleOptions>();
        ScheduleArguments& asked = options->arguments;
        options->spec.declare(app, false);
        for (const CLI::Option* one : app.get_options())
          if (!one->get_positional() && one != app.get_help_ptr()) options->of_specs.push_back(one);
        app.get_option("spec")
            ->required(false)
            ->description("the name of a schedule, a file of PyTorch's, or a spec with a pipeline")
            ->type_name("NAME|FILE.csv|SPEC");
        options->of_schedules = {
            app.add_option("--stages", asked.ranks, "ranks of the pipeline")->type_name("P"),
            app.add_option("--microbatches", asked.micro_batches, "parts of the batch")->type_name("M"),
            app.add_option("--chunks", asked.chunks, "stages of a rank, for schedules that have several")
                ->type_name("V"),
            app.add_option("--cost", asked.costs,
                           "time of a rank for a micro-batch (default F=1,I=1,W=1,R=0,latency=0)")
                ->delimiter(',')
                ->type_name("KIND=TIME,..."),
            app.add_option("--remat", asked.remat, "what is computed again before its gradient (default none)")
                ->transform(enumerator_of<Remat>(
                    {{"none", Remat::none}, {"stage", Remat::stage}, {"except_last", Remat::except_last}}))
                ->type_name("none|stage|except_last")};
        CLI::Option* const compare = app.add_flag("--compare", options->compare, "all schedules of these numbers");
        CLI::Option* const csv = app.add_flag("--csv", options->csv, "print the lists as PyTorch reads them");
        app.add_flag("--communication", options->communication, "with --csv: sends and receives too")->needs(csv);
        app.add_option("--svg", options->svg, "draw it into this file")->type_name("FILE");
        app.add_option("--trace", options->trace, "write it for chrome://tracing")->type_name("FILE");
        options->output.declare(app, true);
        csv->excludes(compare)->excludes(app.get_option("--json"));
        return [options] { return show(*options); };
      }};
}

}  // namespace mesh
