// The specs of the repository, made small, as programs: fused and not, under their layouts, equal to one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>

#include "codegen/compile.h"
#include "codegen/interpret/compare.h"
#include "codegen/program/extent.h"
#include "codegen/program/lower.h"
#include "codegen/program/verify_program.h"
#include "codegen/program/walk.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

using tests::compiled;

void check(const CompileRequest& request, const InterpretResult& expected, const std::string& what) {
  const Compiled result = compiled(request);
  tests::expect_equal(expected, tests::run(result.program), what + ", fused");
  const Program plain = lower(std::span(result.entries).first(1), {false});
  EXPECT_EQ(verify_program(plain), std::vector<std::string>{}) << what;
  tests::expect_equal(expected, tests::run(plain), what + ", not fused");
}

InterpretResult reference(CompileRequest request) {
  request.one_rank = true;
  request.mesh.clear();
  request.layout.clear();
  const Compiled result = compiled(request);
  return tests::run(lower(std::span(result.entries).first(1), {false}));
}

/// A program that writes a text renews its caches where they lie: it has no second array for any of them.
TEST(Specs, caches_are_renewed_in_place) {
  CompileRequest request;
  request.files = {SPECS "/gpt2.mesh"};
  request.generate = true;
  const Program program = compiled(request).program;
  size_t caches = 0;
  for (const Buffer& cache : program.buffers) {
    if (cache.kind != BufferKind::cache) continue;
    ++caches;
    for (const Buffer& other : program.buffers)
      EXPECT_TRUE(other.kind == BufferKind::cache || other.dims != cache.dims) << cache.name << " and " << other.name;
  }
  EXPECT_EQ(caches, 2u);  // of keys and of values
}

/// What experts are given and make is brought into another order by whole lines, and once for two weights' gradients.
TEST(Specs, experts_copy_whole_lines_and_no_value_twice) {
  CompileRequest request;
  request.files = {SPECS "/mixtral.mesh"};
  Program program = compiled(request).program;
  const auto names_of = [&](const Access& access) {
    std::vector<std::string> names;
    for (const LocalDim& local : dims_of(program, access)) names.push_back(program.sharded.graph.dim(local.dim).name);
    return names;
  };
  int of_slots = 0;
  for_each_list(program, [&](Steps& steps) {
    std::vector<std::tuple<Access, std::vector<LocalDim>, Part>> copied;
    for (const Step& step : steps) {
      const auto* copy = std::get_if<CopyStep>(&step.what);
      if (!copy) continue;
      const auto dims = dims_of(program, copy->to);
      std::tuple one{copy->from, std::vector<LocalDim>(dims.begin(), dims.end()), part_of(step)};
      EXPECT_EQ(std::ranges::count(copied, one), 0) << program.buffer(copy->from.buffer).name;
      copied.push_back(std::move(one));
      if (std::vector<std::string> names = names_of(copy->from); std::ranges::count(names, "slot") > 0) {
        ++of_slots;
        EXPECT_EQ(names.back(), "embed");
        EXPECT_EQ(names_of(copy->to).back(), "embed");
      }
    }
  });
  EXPECT_EQ(of_slots, 5);  // of ys forward and backward, of its gradient, of xs, of its gradient
}

/// `meshc ir` knows a pass by the list alone; the compiler runs them by its one function.
TEST(Specs, passes_run_in_the_order_of_their_list) {
  std::vector<std::string> listed, run;
  for (const auto& [name, meaning] : pass_names()) listed.push_back(name);
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh"};
  request.dump = [&](const std::string& entry, const std::string& pass, const std::string& text) {
    if (entry.empty() || entry == "train") run.push_back(pass);
    EXPECT_FALSE(text.empty()) << pass;
  };
  compiled(request);
  EXPECT_EQ(run, listed);
}

/// An entry that only this test has: values of the forward pass, one of them inside the loop. It is computed alike on
/// all meshes, leaves parameters and optimizer state as they are, and lies in memory that the step uses too.
TEST(Specs, gpt_with_an_entry_of_its_own) {
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh"};
  request.precision = "f64";
  request.set = {{"batch", "4"},    {"seq", "7"},    {"embed", "12"}, {"heads", "2"},
                 {"head_dim", "6"}, {"vocab", "11"}, {"layer", "2"}};
  request.mesh = {{"data", 1}, {"model", 1}};
  const MemoryPlan without = compiled(request).program.memory;
  request.entries = {{"scores", {"logits", "layer.feed"}}};
  const Compiled one = compiled(request);
  EXPECT_EQ(one.program.memory.own, without.own);
  EXPECT_EQ(one.program.memory.arena, without.arena);
  const tests::Called expected = tests::call(one.program, "scores");
  EXPECT_EQ(expected.metrics, tests::run(one.program).metrics);
  ASSERT_EQ(expected.outputs.size(), 2U);
  ASSERT_TRUE(expected.outputs.contains("scores.logits"));
  for (const auto& [data, model] : {std::pair{2, 1}, {1, 2}, {2, 2}, {3, 1}}) {
    request.mesh = {{"data", data}, {"model", model}};
    const tests::Called found = tests::call(compiled(request).program, "scores");
    for (const auto& [name, array] : expected.outputs) {
      ASSERT_EQ(array.shape, found.outputs.at(name).shape) << name;
      const auto numbers = [](const meshrt::Array& of) {
        return std::span(reinterpret_cast<const double*>(of.data.data()), of.data.size() / sizeof(double));
      };
      const auto theirs = numbers(found.outputs.at(name));
      for (size_t i = 0; i < theirs.size(); ++i) ASSERT_NEAR(numbers(array)[i], theirs[i], 1e-9) << name;
    }
  }
}

/// A state that begins as an expression is computed by an entry of its own, once: the step knows nothing of it. One
/// that reads another state sees what that began as, be it given.
TEST(Specs, states_that_begin_as_expressions) {
  CompileRequest request;
  request.files = {BEGIN};
  request.one_rank = true;
  const Compiled one = compiled(request);
  std::vector<std::string> names;
  for (const EntryPoint& entry : one.program.entries) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"train", "evaluate", "begin.slow", "begin.twice", "begin.kept",
                                             "begin.layer.held"}));
  const Graph& graph = one.program.sharded.graph;
  for (const Stored& stored : graph.stored) EXPECT_FALSE(stored.path.ends_with(".begun")) << stored.path;
  // The step changes `slow` and `layer.held` alone.
  size_t updates = 0;
  for (const Node& node : graph.nodes)
    if (const auto* update = std::get_if<UpdateOp>(&node.op))
      updates += graph.stored[update->stored.index].kind == StoredKind::state ? 1 : 0;
  EXPECT_EQ(updates, 2U);

  InterpretRequest job{one.program};
  job.feeds = random_feeds(one.program, 1);
  const auto numbers = [](const meshrt::Array& of) {
    return std::span(reinterpret_cast<const float*>(of.data.data()), of.data.size() / sizeof(float));
  };
  const InterpretResult begun = interpret(job);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(numbers(begun.before.at("slow"))[i], numbers(begun.before.at("w"))[i]);
  meshrt::Array given = begun.before.at("slow");
  std::vector<float> tens(6, 10);
  std::memcpy(given.data.data(), tens.data(), given.data.size());
  job.stored["slow"] = given;
  const InterpretResult with = interpret(job);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(numbers(with.before.at("slow"))[i], 10);
    EXPECT_NEAR(numbers(with.before.at("twice"))[i] - 20,
                numbers(begun.before.at("twice"))[i] - 2 * numbers(begun.before.at("slow"))[i], 1e-5);
  }
}

TEST(Specs, gpt_under_its_layouts) {
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh"};
  request.set = {{"batch", "3"},    {"seq", "10"},   {"embed", "12"}, {"heads", "3"},
                 {"head_dim", "4"}, {"vocab", "11"}, {"layer", "2"}};
  const InterpretResult expected = reference(request);
  for (const auto& [data, model] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 1}, {1, 3}}) {
    request.mesh = {{"data", data}, {"model", model}};
    check(request, expected, "data " + std::to_string(data) + ", model " + std::to_string(model));
  }
}

/// In f64, where a wrong element cannot hide behind rounding.
TEST(Specs, gpt_under_layouts_that_its_file_does_not_show) {
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh", LAYOUTS};
  request.precision = "f64";
  request.set = {{"batch", "3"},    {"seq", "7"},    {"embed", "10"}, {"heads", "2"},
                 {"head_dim", "5"}, {"vocab", "11"}, {"layer", "2"}};
  request.wanted = {"logits", "layer.h", "layer.attn.q", "layer.feed", "grad(layer.attn.wq)", "grad(wte)", "grad_norm"};
  const InterpretResult expected = reference(request);
  EXPECT_EQ(expected.wanted.size(), request.wanted.size());
  for (const char* layout : {"default", "moments", "shards", "lengthwise", "everything", "width"}) {
    request.layout = layout;
    check(request, expected, layout);
  }
}

TEST(Specs, results_are_not_written_over_what_is_still_read) {
  for (const char* model : {"Softmax", "Masked", "Norm", "Residual", "Total", "Renamed", "Decay"})
    for (const bool wants : {false, true}) {
      CompileRequest request;
      request.files = {IN_PLACE};
      request.model = model;
      request.precision = "f64";
      if (wants) request.wanted = {"y", "loss", "grad(p1)"};
      check(request, reference(request), std::string(model) + (wants ? " with values fetched" : ""));
    }
}

TEST(Specs, mlp_under_its_six_layouts) {
  CompileRequest request;
  request.files = {SPECS "/mlp.mesh"};
  request.set = {{"batch", "6"}, {"pixel", "10"}, {"hidden", "9"}, {"class", "5"}};
  const InterpretResult expected = reference(request);
  for (const char* layout : {"whole", "data", "model", "both", "weights", "three"}) {
    request.layout = layout;
    check(request, expected, layout);
  }
}

}  // namespace
}  // namespace mesh
