#include "codegen/commands/bench/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/commands/plan_all.h"
#include "codegen/commands/remedies.h"
#include "codegen/layout/cost.h"
#include "codegen/program/program.h"
#include "meshrt/log.h"

namespace mesh {

double OnMachine::flops_per_second() const {
  const Graph& graph = compiled.sharded().graph;
  const bool wide = std::ranges::any_of(graph.stored, [](const Stored& one) { return one.type.element == Type::f64; });
  return 1e9 * (wide                                       ? machine().gflops_f64
                : multiplies(compiled.program, Type::bf16) ? machine().gflops_bf16
                                                           : machine().gflops_f32);
}

namespace {

using Json = nlohmann::ordered_json;

constexpr double worth_telling = 0.01;  // of a step

class Adviser {
 public:
  Adviser(const Session& session, const OnMachine& planned, const Trial& trial, int cores)
      : session_(session), planned_(planned), trial_(trial), cores_(cores), step_(trial.median()) {}

  std::vector<Advice> all() {
    another_layout();
    another_rule();
    fuller_products();
    nothing_twice();
    shorter_bubble();
    shorter_waits();
    faster_reading();
    more_cores();
    std::erase_if(found_, [&](const Advice& one) { return one.seconds < worth_telling * step_; });
    std::ranges::stable_sort(found_, std::greater{}, &Advice::seconds);
    return std::move(found_);
  }

 private:
  std::string memory_text(int64_t bytes) const {
    return fmt::format("memory of a rank {}, {} now", meshrt::bytes_text(bytes),
                       meshrt::bytes_text(planned_.compiled.program.memory.peak()));
  }

  void another_layout() {
    CompileRequest request = session_.request;
    request.ranks = planned_.ranks();
    SourceMap sources;
    const std::vector<Json> plans = plans_of_layouts(std::move(request), session_.sink, sources);
    const bool apart = bool(planned_.compiled.sharded().layout.replicas);
    const auto fastest = std::ranges::find_if(
        plans, [&](const Json& plan) { return !plan.contains("error") && trains_apart(plan) == apart; });
    if (fastest == plans.end()) return;
    const Json& best = *fastest;
    const std::string layout = best["layout"];
    std::string axes;
    for (const auto& [axis, size] : best["mesh"]["axes"].items())
      axes += fmt::format("{}{}={}", axes.empty() ? "" : ",", axis, size.get<int64_t>());
    found_.push_back({planned_.time.total() - best["predicted_seconds"].get<double>(), false,
                      fmt::format("layout `{}`, {}", layout, memory_text(best["memory"]["peak"])),
                      fmt::format("--layout {} --mesh {}", layout, axes)});
  }

  void another_rule() {
    const std::vector<Remedy> remedies = remedies_of(session_, planned_.compiled, planned_.step);
    for (size_t i = 0; i < remedies.size(); ++i) {
      const Remedy& one = remedies[i];
      if (one.rule.empty()) continue;
      const PlannedCollective& call = planned_.step.collectives[i];
      const std::string what =
          fmt::format("without the {} of `{}`, {}", name_of(call.kind), call.tensor, memory_text(one.cost.memory));
      const std::string how = one.in_place_of.empty()
                                  ? fmt::format("in the layout: `{}`", one.rule)
                                  : fmt::format("in the layout: `{}` in place of `{}`", one.rule, one.in_place_of);
      if (std::ranges::find(found_, how, &Advice::how) == found_.end())
        found_.push_back({planned_.time.total() - one.cost.seconds, false, what, how});
    }
  }

  void fuller_products() {
    const double multiplying = trial_.parts.products + trial_.parts.attention;
    const double needed = planned_.step.flops / (static_cast<double>(planned_.ranks()) * planned_.flops_per_second());
    if (multiplying <= 0) return;
    found_.push_back({multiplying - needed, true,
                      fmt::format("products and attention at the rate of large products, of which they reach {:.0f} %",
                                  100 * needed / multiplying),
                      "larger products: more samples a rank, or fewer ranks for a dim of the weights"});
  }

  void nothing_twice() {
    if (planned_.step.flops <= 0) return;
    const double again = 1 - planned_.model_flops / planned_.step.flops;
    found_.push_back({again * (trial_.parts.products + trial_.parts.attention), true,
                      fmt::format("{:.0f} % of the arithmetic is done a second time, to keep less", 100 * again),
                      "less `remat` in the layout, where there is memory"});
  }

  void shorter_bubble() {
    const std::optional<PlannedPipeline>& pipeline = planned_.step.pipeline;
    if (!pipeline) return;
    found_.push_back(
        {planned_.time.bubble / 2, false,
         fmt::format("half of the bubble, in which stages wait {} of a step", time_text(planned_.time.bubble)),
         fmt::format("`microbatches: {}`; `meshc schedule SPEC --compare` shows other schedules",
                     2 * pipeline->micro_batches)});
  }

  void shorter_waits() {
    double waiting = 0;
    for (const StepParts& one : trial_.ranks) waiting += one.waiting / static_cast<double>(trial_.ranks.size());
    const double expected = planned_.time.exposed + planned_.time.bubble;
    const auto [longest, shortest] = trial_.unlike_ranks();
    found_.push_back(
        {waiting - expected, true,
         fmt::format("ranks that wait no longer than predicted: {} is, {} was; rank {} computes {}, rank {} {}",
                     time_text(expected), time_text(waiting), longest, time_text(trial_.ranks[longest].computing()),
                     shortest, time_text(trial_.ranks[shortest].computing())),
         "parts of one size, and a core for each rank with nothing else on it"});
  }

  void faster_reading() {
    found_.push_back({trial_.parts.data, true, "batches that are there when a step begins",
                      "numbers instead of text (`meshc data`), files on a local disk"});
  }

  void more_cores() {
    const int64_t ranks = planned_.ranks();
    if (cores_ <= ranks) return;
    found_.push_back({step_ * (1 - static_cast<double>(ranks) / cores_), true,
                      fmt::format("all {} cores: {} {} at work", cores_, ranks, ranks == 1 ? "is" : "are"),
                      fmt::format("`-n {}`, or `--threads-per-rank {}` of the program", cores_, cores_ / ranks)});
  }

  const Session& session_;
  const OnMachine& planned_;
  const Trial& trial_;
  const int cores_;
  const double step_;
  std::vector<Advice> found_;
};

}  // namespace

std::vector<Advice> advice_for(const Session& session, const OnMachine& planned, const Trial& trial, int cores) {
  return Adviser(session, planned, trial, cores).all();
}

}  // namespace mesh
