// What a search finds, beside all sets of rules of random small models: each is written as a layout and compiled.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

#include "codegen/compile.h"
#include "codegen/layout/predict.h"
#include "codegen/program/exposed.h"

namespace mesh {
namespace {

struct Model {
  std::string text;  // without its layout
  std::vector<std::string> dims, parameter_dims;
  std::vector<std::string> axes;
};

std::optional<Compiled> compiled(const std::string& text, const std::string& machine = "") {
  SourceMap sources;
  sources.add("model.mesh", text);
  if (!machine.empty()) sources.add("machine.yaml", machine);
  DiagnosticSink sink;
  for (const Lint& lint : known_lints()) sink.set_lint_level(lint.name, LintLevel::allow);
  CompileRequest request;
  request.files = {"model.mesh"};
  if (!machine.empty()) request.machine_file = "machine.yaml";
  return compile(request, sources, sink);
}

double seconds_of(const Compiled& made) { return step_time(made.program, predict(made.program)).total(); }

/// Products in a row, perhaps with a loop, a bias and a sum with what came before.
Model random_model(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> of) { return *(of.begin() + random() % of.size()); };
  const bool two_axes = random() % 2 == 0;
  Model model;
  model.dims = {"batch", "wide", "inner", "out"};
  model.parameter_dims = {"wide", "inner", "out"};
  const int batch = pick({8, 64, 512}), wide = pick({16, 128, 1024}), inner = pick({16, 256, 2048}),
            out = pick({4, 64, 512});
  model.text = fmt::format("dim batch = {}, wide = {}, inner = {}, out = {}, layer = 3\n", batch, wide, inner, out);
  const bool loop = random() % 2 == 0, bias = random() % 2 == 0;
  model.text += "model Random {\n  input x : real[batch, wide]\n  input y : real[batch, out]\n";
  if (loop) {
    model.text +=
        "  h = x\n  repeat layer {\n    param up : real[wide, inner] = fan_in[wide]\n"
        "    param down : real[inner, wide] = fan_in[inner]\n"
        "    h = h + dot[inner](relu(dot[wide](h, up)), down)\n  }\n"
        "  param last : real[wide, out] = fan_in[wide]\n  o = dot[wide](h, last)\n";
  } else {
    model.text += "  param first : real[wide, inner] = fan_in[wide]\n  param last : real[inner, out] = fan_in[inner]\n";
    if (bias) model.text += "  param shift : real[inner] = zeros\n";
    model.text += fmt::format("  h = tanh(dot[wide](x, first){})\n  o = dot[inner](h, last)\n", bias ? " + shift" : "");
  }
  model.text += "  loss = mean[batch, out]((o - y) ^ 2)\n  minimize loss with sgd(lr: 0.1)\n}\n";
  model.axes = two_axes ? std::vector<std::string>{"data", "model"} : std::vector<std::string>{"data"};
  model.text += two_axes ? "mesh line { data: 2, model: 2 }\n" : "mesh line { data: 4 }\n";
  return model;
}

/// Every list of axes, none among them.
std::vector<std::string> targets(const Model& model) {
  if (model.axes.size() == 1) return {"", "data"};
  return {"", "data", "model", "data * model", "model * data"};
}

/// The least seconds of all layouts of a rule, or none, for each dim of values and each dim of parameters.
double least_of_all(const Model& model, bool with_scope) {
  const std::vector<std::string> all = targets(model);
  std::vector<std::pair<std::string, std::string>> slots;  // scope, dim
  for (const std::string& dim : model.dims) slots.emplace_back("", dim);
  if (with_scope)
    for (const std::string& dim : model.parameter_dims) slots.emplace_back("params", dim);
  size_t count = 1;
  for (size_t i = 0; i < slots.size(); ++i) count *= all.size();
  double least = std::numeric_limits<double>::infinity();
  for (size_t number = 0; number < count; ++number) {
    std::string rules;
    size_t rest = number;
    for (const auto& [scope, dim] : slots) {
      const std::string& target = all[rest % all.size()];
      rest /= all.size();
      if (target.empty()) continue;
      const std::string rule = fmt::format("{} -> {}", dim, target);
      rules += scope.empty() ? rule + "\n" : fmt::format("{} {{ {} }}\n", scope, rule);
    }
    if (const auto made = compiled(model.text + "layout l on line {\n" + rules + "}\n"))
      least = std::min(least, seconds_of(*made));
  }
  return least;
}

struct Seeds {
  int first = 1, last = 3;
};

/// GRAPHS, as in "1-50", else a few.
Seeds seeds() {
  Seeds asked;
  if (const char* text = std::getenv("GRAPHS"); text && std::sscanf(text, "%d-%d", &asked.first, &asked.last) != 2)
    ADD_FAILURE() << "GRAPHS is " << text << ", not two numbers as in 1-50";
  return asked;
}

TEST(Search, FindsTheBestOfAllRulesOrSaysThatItIsNotProved) {
  int proved = 0;
  const Seeds asked = seeds();
  for (int seed = asked.first; seed <= asked.last; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const Model model = random_model(random);
    const auto found = compiled(model.text + "layout l on line { auto }\n");
    ASSERT_TRUE(found && found->found) << model.text;
    proved += found->found->proved ? 1 : 0;
    const double allowed = found->found->proved ? 1 + 1e-6 : 1.02;
    EXPECT_LE(seconds_of(*found), allowed * least_of_all(model, model.axes.size() == 1))
        << "seed " << seed << "\n"
        << model.text << found->found->text;
  }
  std::printf("%d graphs, %d proved\n", asked.last - asked.first + 1, proved);
}

TEST(Search, WhatIsPrintedIsWhatWasFoundAndNothingOfItIsIdle) {
  for (int seed = 101; seed <= 104; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const Model model = random_model(random);
    const auto found = compiled(model.text + "layout l on line { auto }\n");
    ASSERT_TRUE(found && found->found);
    const auto written = compiled(model.text + found->found->text);
    ASSERT_TRUE(written) << found->found->text;
    EXPECT_EQ(written->sharded().placements, found->sharded().placements) << found->found->text;
    EXPECT_DOUBLE_EQ(seconds_of(*written), found->found->seconds);
    for (const FoundLayout::Line& line : found->found->lines) {
      if (line.text.starts_with("replicate")) continue;
      std::string text = found->found->text;
      const size_t at = text.find("// " + line.cost);
      ASSERT_NE(at, std::string::npos) << line.cost;
      const size_t begin = text.rfind('\n', at) + 1;
      text.erase(begin, text.find('\n', at) + 1 - begin);
      const auto without = compiled(model.text + text);
      ASSERT_TRUE(without) << text;
      EXPECT_NE(without->sharded().placements, found->sharded().placements) << line.text << "\n" << text;
    }
  }
}

TEST(Search, FindsStagesWithinReplicas) {
  const std::string slow = "name: slow\nnode: { ranks: 1 }\nnetwork: { latency_us: 500, gbs: 0.1 }\n";
  const std::string model =
      "dim batch = 64, embed = 256, out = embed, wide = 1024, layer = 8\n"
      "model Deep {\n"
      "  input x, y : real[batch, embed]\n"
      "  h = x\n"
      "  repeat layer {\n"
      "    param up : real[embed, wide] = fan_in[embed]\n"
      "    param down : real[wide, out] = fan_in[wide]\n"
      "    h = h + dot[wide](relu(dot[embed](h, up)), down)[out as embed]\n"
      "  }\n"
      "  loss = mean[batch, embed]((h - y) ^ 2)\n"
      "  minimize loss with adamw(lr: 1e-3)\n"
      "}\n"
      "mesh grid { data: 2, pipe: 4 }\n";
  const auto made = compiled(model + "layout l on grid { batch -> data { sync: 10 }; auto }\n", slow);
  ASSERT_TRUE(made && made->found);
  ASSERT_TRUE(made->sharded().layout.pipeline) << made->found->text;
  const auto alone = compiled(model + "layout l on grid { batch -> data { sync: 10 } }\n", slow);
  ASSERT_TRUE(alone);
  EXPECT_LT(seconds_of(*made), seconds_of(*alone));
  const int64_t own = 64 / 2;  // samples of a replica
  EXPECT_EQ(own % made->sharded().layout.pipeline.micro_batches, 0);
}

TEST(Search, GivesTheSameTwice) {
  std::mt19937 random(7);
  const Model model = random_model(random);
  const auto one = compiled(model.text + "layout l on line { auto }\n"),
             two = compiled(model.text + "layout l on line { auto }\n");
  ASSERT_TRUE(one && two && one->found && two->found);
  EXPECT_EQ(one->found->text, two->found->text);
  EXPECT_EQ(one->spec_hash, two->spec_hash);
}

}  // namespace
}  // namespace mesh
