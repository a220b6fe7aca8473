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
#include "codegen/commands/verify_fault.h"
#include "codegen/interpret/compare.h"
#include "codegen/optimizer/norms.h"

namespace mesh {

namespace {

struct VerifyOptions {
  OutputOptions output;
  SpecOptions spec;
  CompareOptions compare;
  std::string mutation;  // KIND:N, or "list"; empty: none
};

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
std::optional<Comparison> compare(const VerifyOptions& options, std::vector<std::string> wanted, std::string& title,
                                  bool& refused) {
  const auto compile = [&](bool one_rank) {
    Session session(options.spec, options.output);
    session.request.wanted = wanted;
    session.request.one_rank = one_rank;
    if (session.request.precision.empty()) session.request.precision = "f64";
    // The reference is as simple as can be, where rounding does not count.
    session.request.plain = one_rank && session.request.precision == "f64";
    std::optional<Compiled> compiled = session.compile();
    if (compiled && !one_rank) {
      const Layout& layout = compiled->sharded().layout;
      title = fmt::format("{}: {} rank{} against one, {}", layout.name.empty() ? "no layout" : "layout " + layout.name,
                          layout.mesh.ranks(), layout.mesh.ranks() == 1 ? "" : "s", session.request.precision);
    }
    return compiled;
  };
  std::optional<Compiled> reference = compile(true);
  if (!reference) return std::nullopt;
  if (const std::optional<Objective>& objective = reference->sharded().graph.objective) {
    wanted.emplace_back("grad(**)");
    if (objective->values.contains("clip")) wanted.emplace_back(norm_name);
    reference = compile(true);
  }
  std::optional<Compiled> sharded = compile(false);
  if (!sharded) return std::nullopt;
  if (options.mutation.empty()) return compare_programs(sharded->program, reference->program, options.compare);
  const auto again = [&] { return std::move(compile(false)->program); };
  return compare_with_fault(options.mutation, again, reference->program, options.compare, refused);
}

int verify(const VerifyOptions& options) {
  std::string title;
  bool refused = false;
  // The program as it is trained, then one that keeps every named value, for which less may be fused and recognised.
  const std::optional<Comparison> trained = compare(options, {}, title, refused);
  if (!trained) return exit_diagnostics;
  if (trained->exit_code != 0) return trained->exit_code;
  if (options.mutation == "list") return exit_ok;
  const std::optional<Comparison> kept =
      options.mutation.empty() ? compare(options, {"**"}, title, refused) : Comparison{};
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
  return found.equal() && !refused ? exit_ok : exit_diagnostics;
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
           {"meshc verify mlp.mesh --layout data --mutate drop:1", "see it fail: with one collective left out"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<VerifyOptions>();
            options->spec.declare(app, false);
            app.add_option("--seed", options->compare.seed, "of inputs and parameters (default 1)")->type_name("N");
            app.add_option("--steps", options->compare.steps, "training steps to make before comparing (default 1)")
                ->type_name("K")
                ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
            app.add_option("--bound", options->compare.bound,
                           "largest difference, relative to a tensor's largest number")
                ->type_name("X")
                ->check(CLI::PositiveNumber);
            app.add_option("--scale", options->compare.scale, "standard deviation of real inputs (default 1)")
                ->type_name("X")
                ->check(CLI::PositiveNumber);
            app.add_option("--mutate", options->mutation,
                           "build one fault into the training step, to try the check itself: collective N is left out "
                           "(drop) or left out by one rank (skip) or changes places with the next of its group on one "
                           "rank (swap); division by a count N is left out (scale); slice N is read a row off (shift). "
                           "`list` prints how many there are")
                ->type_name("KIND:N");
            options->output.declare(app, true);
            return [options] { return verify(*options); };
          }};
}

}  // namespace mesh
