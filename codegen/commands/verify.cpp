// `meshc verify SPEC`: does the layout change a number? The program under the layout and that of one rank are
// interpreted on the same random inputs, and every named value, gradient, parameter and metric is compared.
#include "codegen/commands/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/session.h"
#include "codegen/interpret/by_gradients.h"
#include "codegen/optimizer/norms.h"

namespace mesh {

namespace {

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
    const std::string verdict = value.as_wider       ? "as near as " + found.wider
                                : value.by_gradients ? "by its gradients"
                                : value.equal        ? "equal"
                                : colored            ? fmt::format("\x1b[1;31m{}\x1b[0m", wrong)
                                                     : wrong;
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
  if (first.wider.empty()) first.wider = second.wider;
  if (first.differing_copies.empty()) {
    first.differing_copies = second.differing_copies;
    first.copies_difference = second.copies_difference;
  }
  return first;
}

}  // namespace

void VerifyOptions::declare(CLI::App& app) {
  spec.declare(app, false);
  app.add_option("--seed", compare.seed, "of inputs and parameters (default 1)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--steps", compare.steps, "training steps to make before comparing (default 1)")
      ->type_name("K")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  app.add_option("--bound", compare.bound, "largest difference, relative to a tensor's largest number")
      ->type_name("X")
      ->check(is_positive);
  app.add_option("--scale", compare.scale, "standard deviation of real inputs (default 1)")
      ->type_name("X")
      ->check(is_positive);
  output.declare(app, true);
}

namespace {

std::optional<Compiled> compile(const VerifyOptions& options, const std::vector<std::string>& wanted, bool one_rank,
                                const std::string& precision, bool given_gradients = false) {
  Session session(options.spec, options.output);
  session.request.wanted = wanted;
  session.request.one_rank = one_rank;
  session.request.precision = precision;
  session.request.given_gradients = given_gradients;
  // The reference is as simple as can be, where rounding does not count.
  session.request.plain = one_rank && precision == "f64";
  return session.compile();
}

/// One rank's program. With what is wanted come all gradients, and their norm where it clips them.
std::optional<Compiled> compile_reference(const VerifyOptions& options, std::vector<std::string>& wanted,
                                          const std::string& precision, bool given_gradients = false) {
  std::optional<Compiled> reference = compile(options, wanted, true, precision, given_gradients);
  if (!reference) return std::nullopt;
  const Graph& graph = reference->sharded().graph;
  const std::optional<Objective>& objective = graph.objective;
  if (!objective) return reference;
  const auto frozen = [&](const Objective::Parameter& one) { return graph.stored[one.stored.index].frozen; };
  if (std::ranges::all_of(objective->parameters, frozen)) return reference;
  wanted.emplace_back("grad(**)");
  if (objective->values.contains("clip")) wanted.emplace_back(norm_name);
  return compile(options, wanted, true, precision, given_gradients);
}

/// The precision of more bits than the program's; none beyond f64.
std::string wider_than(const Program& program, const std::string& precision) {
  return bound_of_narrow(program) > 0 ? "f32" : precision == "f32" ? "f64" : "";
}

/// What one rank computes in numbers of more bits.
std::optional<Program> reference_in(const std::string& precision, const VerifyOptions& options,
                                    std::vector<std::string> wanted, bool given_gradients = false) {
  std::optional<Compiled> reference = compile_reference(options, wanted, precision, given_gradients);
  if (!reference) return std::nullopt;
  return std::move(reference->program);
}

std::string precision_of(const VerifyOptions& options) {
  return options.spec.precision.empty() ? "f64" : options.spec.precision;
}

}  // namespace

std::optional<ComparedPrograms> compile_both(const VerifyOptions& options, std::vector<std::string> wanted) {
  const std::string precision = precision_of(options);
  std::optional<Compiled> reference = compile_reference(options, wanted, precision);
  if (!reference) return std::nullopt;
  std::optional<Compiled> sharded = compile(options, wanted, false, precision);
  if (!sharded) return std::nullopt;
  const Layout layout = sharded->sharded().layout;
  return ComparedPrograms{
      std::move(sharded->program), std::move(reference->program),
      fmt::format("{}: {} rank{} against one, {}", layout.name.empty() ? "no layout" : "layout " + layout.name,
                  layout.mesh.ranks(), layout.mesh.ranks() == 1 ? "" : "s", precision)};
}

std::optional<Program> compile_driven(const VerifyOptions& options, std::vector<std::string> wanted) {
  return reference_in(precision_of(options), options, std::move(wanted), true);
}

int report(const Comparison& found, const std::string& title, const OutputOptions& output) {
  if (found.exit_code != 0) return found.exit_code;
  const auto different = std::ranges::count_if(found.values, [](const ComparedValue& value) { return !value.equal; });
  if (output.json) {
    nlohmann::json values = nlohmann::json::array();
    for (const ComparedValue& value : found.values)
      values.push_back({{"name", value.name},
                        {"type", meshrt::name_of(value.type)},
                        {"shape", value.shape},
                        {"largest", value.largest},
                        {"difference", value.difference},
                        {"nan", value.nan},
                        {"as_wider", value.as_wider},
                        {"by_gradients", value.by_gradients},
                        {"equal", value.equal}});
    fmt::print(
        "{}\n",
        nlohmann::json(
            {{"schema", 1}, {"ok", found.equal()}, {"values", values}, {"differing_copies", found.differing_copies}})
            .dump(2));
  } else {
    fmt::print("{}\n", title);
    print_table(found, output.colored(1));
    if (!found.differing_copies.empty())
      fmt::print("copies of {} on several ranks differ by {:.2g}\n", found.differing_copies, found.copies_difference);
    if (different > 0) fmt::print("{} of {} values differ\n", different, found.values.size());
    else fmt::print("all {} values are equal\n", found.values.size());
    const auto skips = [](const ComparedValue& value) {
      return value.name.starts_with("optimizer(") && value.name.ends_with(".skipped_steps)") && value.largest > 0;
    };
    if (std::ranges::any_of(found.values, &ComparedValue::nan) && std::ranges::any_of(found.values, skips))
      fmt::print(
          "the scale of the loss has skipped a step, whose gradients need not be finite: smaller inputs "
          "(`--scale 0.1`), or more steps until the scale fits (`--steps 10`), show more\n");
    if (const auto near = std::ranges::count_if(found.values, &ComparedValue::as_wider); near > 0)
      fmt::print("{} of them as near as {} is: roundings add up there\n", near, found.wider);
    if (const auto made = std::ranges::count_if(found.values, &ComparedValue::by_gradients); made > 0)
      fmt::print(
          "{} of them as on one rank that steps by the layout's gradients: these differ by rounding alone,"
          " of which the optimizer makes a step\n",
          made);
  }
  return found.equal() ? exit_ok : exit_diagnostics;
}

namespace {

int verify(const VerifyOptions& options) {
  std::optional<Comparison> found;
  std::string title;
  // The program as it is trained, then one that keeps every named value, for which less may be fused and recognised.
  for (const std::vector<std::string>& wanted : {std::vector<std::string>{}, {"**"}}) {
    const std::optional<ComparedPrograms> both = compile_both(options, wanted);
    if (!both) return exit_diagnostics;
    Comparison one = compare_programs(both->program, both->reference, options.compare);
    const std::string wider = wider_than(both->program, options.spec.precision);
    if (one.exit_code == 0 && steps_differ(one)) {
      const std::optional<Program> driven = compile_driven(options, wanted);
      if (!driven) return exit_diagnostics;
      allow_by_gradients(one, both->program, *driven, options.compare);
    }
    if (one.exit_code == 0 && !one.equal() && options.compare.bound == 0 && !wider.empty()) {
      const std::optional<Program> in_wider = reference_in(wider, options, wanted);
      if (!in_wider) return exit_diagnostics;
      CompareOptions beside_wider = options.compare;
      beside_wider.any_precision = true;
      allow_as_wider(one, compare_programs(both->reference, *in_wider, beside_wider), wider);
    }
    found = found ? merged(*found, one) : one;
    if (found->exit_code != 0) break;
    title = both->title;
  }
  return report(*found, title, options.output);
}

}  // namespace

Command verify_command() {
  return {
      "verify",
      "compare a layout with one rank, value by value",
      "Interprets a training step under the layout and on one rank with the same random inputs, and compares every "
      "named\n"
      "value, every gradient, every parameter after the step and the metrics. In f64 unless --precision says "
      "otherwise:\n"
      "differences may be 1e-9 (f32: 1e-5; in bf16: 1/64, in f16 1/512, four times that where ranks add up in it, or "
      "twice what numbers of more bits differ there on one rank: `as near as f32`) of a tensor's largest number;\n"
      "of a gradient in f64 also 1e-14 of the largest gradient's: one that is zero but for rounding.\n"
      "Adam, Adafactor and Lion make a whole step of a gradient that is zero but for rounding"
      " (that of a bias of keys).\n"
      "Where a parameter differs, what differs is compared with one rank that steps by the layout's gradients,"
      " and all\ngradients with its own: `by its gradients`.\n"
      "Exit code 0: all equal; 1: something differs.",
      {{"meshc verify gpt.mesh", "the spec's default layout"},
       {"meshc verify gpt.mesh --layout zero --set batch=4", "another layout, a smaller model"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<VerifyOptions>();
        options->declare(app);
        return [options] { return verify(*options); };
      }};
}

}  // namespace mesh
