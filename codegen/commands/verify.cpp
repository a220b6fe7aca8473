// verify.cpp: `meshc verify SPEC`: does the layout change a number? The program under the layout and that of one rank
// are interpreted on the same random inputs, and every named value, gradient, parameter and metric is compared.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/session.h"
#include "codegen/graph/want.h"
#include "codegen/program/interpret_compare.h"

namespace mesh {

namespace {

struct Options {
  OutputOptions output;
  SpecOptions spec;
  CompareOptions compare;
  int64_t removed = 0;  // the collective to leave out, counted from 1; 0: none
};

void say_left_out(const Program& program, const CollectiveStep& step) {
  fmt::print(stderr, "note: left out the {} of {}: {}\n", name_of(step.kind), program.buffer(step.from.buffer).name,
             program.sharded.steps[step.step].reason);
}

// Removes collective number `left` (from 1, in the order of the program); what is left to count otherwise.
int64_t remove_collective(const Program& program, std::vector<Step>& steps, int64_t left) {
  for (size_t i = 0; i < steps.size() && left > 0; ++i) {
    if (auto* const loop = std::get_if<std::unique_ptr<ForStep>>(&steps[i].what)) {
      left = remove_collective(program, (*loop)->body, left);
    } else if (auto* const combined = std::get_if<CombinedStep>(&steps[i].what)) {
      std::vector<CollectiveStep>& all = combined->collectives;
      for (size_t k = 0; k < all.size() && left > 0; ++k)
        if (--left == 0) {
          say_left_out(program, all[k]);
          all.erase(all.begin() + static_cast<ptrdiff_t>(k));
        }
    } else if (const auto* const step = std::get_if<CollectiveStep>(&steps[i].what); step && --left == 0) {
      say_left_out(program, *step);
      steps.erase(steps.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return left;
}

void remove_collective(Program& program, int64_t number) {
  for (Routine& routine : program.routines) {
    if (routine.name != "train_step") continue;
    if (const int64_t left = remove_collective(program, routine.steps, number); left > 0)
      throw UsageError(fmt::format("--remove-collective {}: the program has only {}", number, number - left));
  }
}

std::string shape_text(const ComparedValue& value) { return fmt::format("[{}]", fmt::join(value.shape, ", ")); }

void print_table(const Comparison& found, bool colored) {
  size_t names = 5, shapes = 5;
  for (const ComparedValue& value : found.values) {
    names = std::max(names, value.name.size());
    shapes = std::max(shapes, shape_text(value).size());
  }
  fmt::print("{:<{}}  {:<{}}  {:>10}  {:>10}  verdict\n", "value", names, "shape", shapes, "largest", "difference");
  for (const ComparedValue& value : found.values) {
    const char* const wrong = value.nan ? "NaN" : "DIFFERENT";
    const std::string verdict = value.equal ? "equal" : colored ? fmt::format("\x1b[1;31m{}\x1b[0m", wrong) : wrong;
    fmt::print("{:<{}}  {:<{}}  {:>10.3g}  {:>10.2g}  {}\n", value.name, names, shape_text(value), shapes,
               value.largest, value.difference, verdict);
  }
}

// Two comparisons of one layout: `inner` adds the values that only a program that keeps them has.
Comparison merged(Comparison first, const Comparison& second) {
  if (first.exit_code == 0) first.exit_code = second.exit_code;
  for (const ComparedValue& value : second.values) {
    const auto known = std::ranges::find(first.values, value.name, &ComparedValue::name);
    if (known == first.values.end()) first.values.push_back(value);
    else if (known->equal && !value.equal) *known = value;
  }
  if (first.differing_copies.empty()) {
    first.differing_copies = second.differing_copies;
    first.copies_difference = second.copies_difference;
  }
  return first;
}

// Nothing where the spec has errors.
std::optional<Comparison> compare(const Options& options, std::vector<std::string> wanted, std::string& title) {
  const auto compile = [&](bool one_rank) {
    Session session(options.spec, options.output);
    session.request.wanted = wanted;
    session.request.one_rank = one_rank;
    if (session.request.precision.empty()) session.request.precision = "f64";
    std::optional<Compiled> compiled = session.compile();
    if (compiled && !one_rank) {
      const Layout& layout = compiled->sharded.layout;
      title = fmt::format("{}: {} rank{} against one, {}", layout.name.empty() ? "no layout" : "layout " + layout.name,
                          layout.mesh.ranks(), layout.mesh.ranks() == 1 ? "" : "s", session.request.precision);
    }
    return compiled;
  };
  std::optional<Compiled> reference = compile(true);
  if (!reference) return std::nullopt;
  if (const std::optional<Objective>& objective = reference->graph.objective) {
    wanted.emplace_back("grad(**)");
    if (objective->values.contains("clip")) wanted.emplace_back(norm_name);
    reference = compile(true);
  }
  std::optional<Compiled> sharded = compile(false);
  if (!sharded) return std::nullopt;
  if (options.removed > 0) remove_collective(sharded->program, options.removed);
  return compare_programs(sharded->program, reference->program, options.compare);
}

int verify(const Options& options) {
  std::string title;
  // The program as it is trained, then one that keeps every named value, for which less may be fused and recognised.
  const std::optional<Comparison> trained = compare(options, {}, title);
  if (!trained) return exit_diagnostics;
  if (trained->exit_code != 0) return trained->exit_code;
  const std::optional<Comparison> kept = options.removed > 0 ? Comparison{} : compare(options, {"**"}, title);
  if (!kept) return exit_diagnostics;
  const Comparison found = merged(*trained, *kept);
  if (found.exit_code != 0) return found.exit_code;

  const auto different = std::ranges::count_if(found.values, [](const ComparedValue& value) { return !value.equal; });
  if (options.output.json) {
    nlohmann::json values = nlohmann::json::array();
    for (const ComparedValue& value : found.values)
      values.push_back({{"name", value.name},
                        {"type", meshrt::name_of(value.type)},
                        {"shape", value.shape},
                        {"largest", value.largest},
                        {"difference", value.difference},
                        {"nan", value.nan},
                        {"equal", value.equal}});
    fmt::print(
        "{}\n",
        nlohmann::json(
            {{"schema", 1}, {"ok", found.equal()}, {"values", values}, {"differing_copies", found.differing_copies}})
            .dump(2));
  } else {
    fmt::print("{}\n", title);
    print_table(found, options.output.colored(1));
    if (!found.differing_copies.empty())
      fmt::print("copies of {} on several ranks differ by {:.2g}\n", found.differing_copies, found.copies_difference);
    if (different > 0) fmt::print("{} of {} values differ\n", different, found.values.size());
    else fmt::print("all {} values are equal\n", found.values.size());
  }
  return found.equal() ? exit_ok : exit_diagnostics;
}

}  // namespace

Command verify_command() {
  return {"verify",
          "compare a layout with one rank, value by value",
          "Interprets a training step under the layout and on one rank with the same random inputs, and compares every "
          "named\n"
          "value, every gradient, every parameter after the step and the metrics. In f64 unless --precision says "
          "otherwise:\n"
          "differences may be 1e-9 (f32: 1e-5) of the largest number of a tensor.\n"
          "Exit code 0: all equal; 1: something differs.",
          {{"meshc verify gpt.mesh", "the spec's default layout"},
           {"meshc verify gpt.mesh --layout both --set batch=4", "another layout, a smaller model"},
           {"meshc verify mlp.mesh --remove-collective 1", "see it fail: with one collective left out"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<Options>();
            options->spec.declare(app, false);
            app.add_option("--seed", options->compare.seed, "of inputs and parameters (default 1)")->type_name("N");
            app.add_option("--steps", options->compare.steps, "training steps to make before comparing (default 1)")
                ->type_name("K")
                ->check(CLI::PositiveNumber);
            app.add_option("--bound", options->compare.bound,
                           "largest difference, relative to a tensor's largest number")
                ->type_name("X")
                ->check(CLI::PositiveNumber);
            app.add_option("--remove-collective", options->removed,
                           "leave out the N-th collective, to try the check itself")
                ->type_name("N")
                ->check(CLI::PositiveNumber);
            options->output.declare(app, true);
            return [options] { return verify(*options); };
          }};
}

}  // namespace mesh
