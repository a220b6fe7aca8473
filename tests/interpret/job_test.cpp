// Whole jobs: models under layouts against one rank, faults that must be seen, feeds that must be refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "codegen/entries.h"
#include "codegen/interpret/arrays.h"
#include "codegen/interpret/compare.h"
#include "codegen/interpret/interpreted_program.h"
#include "codegen/layout/place.h"
#include "codegen/optimizer/norms.h"
#include "codegen/optimizer/want.h"
#include "codegen/program/lower.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "tests/program/models.h"

namespace mesh::tests {
namespace {

using Axes = std::vector<std::pair<std::string, int64_t>>;
using Rules = std::vector<std::pair<std::string, std::string>>;

// The model's program under the layout, with all gradients wanted.
Program program_of(const Graph& model, const Axes& axes, const Rules& rules) {
  const Layout under = layout(model, axes, rules);
  Graph backward = differentiated(model);
  DiagnosticSink sink;
  want_gradients(backward, {"grad(**)"}, sink);
  EXPECT_FALSE(sink.has_errors());
  want_norm(backward, {norm_name});
  const Entry entries[] = {{.name = "train", .meaning = "one step", .sharded = place(completed(backward), under, {})},
                           {.name = "evaluate",
                            .meaning = "evaluation",
                            .sharded = place(evaluation(model), under, {}),
                            .over_batches = true}};
  return lower(entries);
}

struct JobCase {
  const char* name;
  Graph (*model)();
  Axes axes;
  Rules rules;
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
void PrintTo(const JobCase& one, std::ostream* out) { *out << one.name; }

class Jobs : public testing::TestWithParam<JobCase> {
 protected:
  Program program() const { return program_of(GetParam().model(), GetParam().axes, GetParam().rules); }
  Program reference() const { return program_of(GetParam().model(), {}, {}); }
};

TEST_P(Jobs, EqualOneRank) {
  const Comparison found = compare_programs(program(), reference(), {.seed = 3, .steps = 2});
  ASSERT_EQ(found.exit_code, 0);
  EXPECT_EQ(found.differing_copies, "");
  EXPECT_GT(found.values.size(), 4u);
  for (const ComparedValue& value : found.values) {
    EXPECT_TRUE(value.equal) << value.name << " differs by " << value.difference << " of " << value.largest;
    EXPECT_GT(value.largest, 0) << value.name;
  }
}

TEST(AsF32, counts_as_equal_what_differs_by_no_more_than_twice_what_f32_does) {
  const auto value = [](const std::string& name, double difference, bool equal, bool nan) {
    return ComparedValue{name, Type::f32, {2}, difference, 1, nan, equal};
  };
  Comparison found, in_f32;
  found.values = {value("near", 0.2, false, false), value("far", 0.21, false, false), value("nan", 0, false, true),
                  value("equal", 0.01, true, false), value("only here", 0.2, false, false)};
  for (const char* name : {"near", "far", "nan", "equal"}) in_f32.values.push_back(value(name, 0.1, false, false));
  allow_as_wider(found, in_f32, "f32");
  std::vector<std::string> equal, as_f32;
  for (const ComparedValue& one : found.values) {
    if (one.equal) equal.push_back(one.name);
    if (one.as_wider) as_f32.push_back(one.name);
  }
  EXPECT_EQ(equal, (std::vector<std::string>{"near", "equal"}));
  EXPECT_EQ(as_f32, std::vector<std::string>{"near"});
}

TEST_P(Jobs, GiveTheSameBitsAgain) {
  const Program one = program();
  InterpretRequest request{one};
  request.feeds = random_feeds(one, 5);
  request.steps = 3;
  const InterpretResult first = interpret(request), second = interpret(request);
  ASSERT_EQ(first.exit_code, 0);
  EXPECT_EQ(first.metrics, second.metrics);
  for (const auto& [path, array] : first.after) EXPECT_EQ(array.data, second.after.at(path).data) << path;
}

// Without any one of its collectives a program gives other numbers, or copies that differ.
TEST_P(Jobs, ShowEveryMissingCollective) {
  const Program expected = reference();
  int removed = 0;
  for (;; ++removed) {
    Program broken = program();
    int left = removed;
    std::string what;
    const std::function<bool(std::vector<Step>&)> remove = [&](std::vector<Step>& steps) {
      for (size_t i = 0; i < steps.size(); ++i) {
        for (Steps* body : bodies(steps[i]))
          if (remove(*body)) return true;
        const std::span<CollectiveStep> call = movements(steps[i]);
        if (call.empty() || call.front().phase == CollectiveStep::Phase::wait) continue;
        if (std::cmp_greater_equal(left, call.size())) {
          left -= static_cast<int>(call.size());
          continue;
        }
        const CollectiveStep& one = call[static_cast<size_t>(left)];
        what = broken.buffer(one.to.buffer).name + ": " + broken.sharded.steps[one.step].reason;
        for (const size_t at : {wait_of(steps, i), i}) {
          if (at == steps.size()) continue;
          if (auto* const combined = std::get_if<CombinedStep>(&steps[at].what))
            combined->collectives.erase(combined->collectives.begin() + left);
          else steps.erase(steps.begin() + static_cast<ptrdiff_t>(at));
        }
        return true;
      }
      return false;
    };
    if (!remove(broken.routines.at(0).steps)) break;
    bool seen = false;  // a sum may be complete without it by chance: no picture in a rank's part is classified right
    for (uint64_t seed = 1; seed <= 5 && !seen; ++seed)
      seen = !compare_programs(broken, expected, {.seed = seed}).equal();
    EXPECT_TRUE(seen) << "without the collective of " << what;
  }
  EXPECT_EQ(removed > 0, !GetParam().axes.empty());
}

TEST_P(Jobs, EvaluateSeveralBatches) {
  const auto evaluate = [](const Program& program) {
    std::vector<double> metrics(program.sharded.graph.metrics.size());
    const int code =
        meshrt::launch_threads(static_cast<int>(program.sharded.layout.mesh.ranks()), [&](meshrt::Rank& rank) {
          InterpretedProgram one(program);
          rank.allocate(one.info().arena_bytes, one.info().own_bytes);
          one.bind(rank);
          meshrt::initialise(one.tensors(), 1);
          std::vector<double> mine(metrics.size());
          const size_t evaluation = meshrt::entry_of(one.info(), "evaluate");
          meshrt::reset(one, evaluation);
          for (uint64_t batch = 0; batch < 3; ++batch) {
            const auto feeds = random_feeds(program, batch);
            for (const meshrt::Tensor& tensor : one.tensors()) {
              if (tensor.role != meshrt::Role::input) continue;
              std::vector<size_t> order;
              for (size_t i = 0; i < tensor.dims.size(); ++i) order.push_back(i);
              ArrayPart(tensor, order).read(feeds.at(tensor.name));
            }
            one.run(evaluation, {}, {});
          }
          one.finish(evaluation, mine);
          if (rank.rank() == 0) metrics = mine;
          return 0;
        });
    EXPECT_EQ(code, 0);
    return metrics;
  };
  const std::vector<double> given = evaluate(program()), expected = evaluate(reference());
  for (size_t i = 0; i < given.size(); ++i) EXPECT_NEAR(given[i], expected[i], 1e-5 * std::abs(expected[i]));
  EXPECT_GT(given[0], 0);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Jobs,
    testing::Values(JobCase{"perceptron_whole", perceptron, {}, {}},
                    JobCase{"perceptron_data", perceptron, {{"x", 2}}, {{"batch", "x"}}},
                    JobCase{"perceptron_data_4", perceptron, {{"x", 4}}, {{"batch", "x"}}},  // 6 over 4
                    JobCase{"perceptron_hidden", perceptron, {{"x", 4}}, {{"hidden", "x"}}},
                    JobCase{"perceptron_class", perceptron, {{"x", 2}}, {{"class", "x"}}},
                    JobCase{"perceptron_both", perceptron, {{"x", 2}, {"y", 2}}, {{"batch", "x"}, {"hidden", "y"}}},
                    JobCase{"perceptron_pixel", perceptron, {{"x", 2}, {"y", 2}}, {{"pixel", "x"}, {"hidden", "y"}}},
                    JobCase{"residual_whole", residual, {}, {}},
                    JobCase{"residual_data", residual, {{"x", 2}}, {{"batch", "x"}}},
                    JobCase{"residual_wide", residual, {{"x", 4}}, {{"wide", "x"}}},
                    JobCase{"residual_both", residual, {{"x", 2}, {"y", 2}}, {{"batch", "x"}, {"wide", "y"}}}),
    [](const auto& info) { return std::string(info.param.name); });

std::string refusal(const InterpretRequest& request) {
  try {
    interpret(request);
  } catch (const meshrt::Failure& failure) {
    EXPECT_EQ(failure.cause, meshrt::Cause::data);
    return failure.what();
  }
  return "";
}

TEST(Feeds, AreChecked) {
  const Program program = program_of(perceptron(), {}, {});
  const auto refused = [&](const std::function<void(InterpretRequest&)>& change) {
    InterpretRequest request{program};
    request.feeds = random_feeds(program, 1);
    change(request);
    return refusal(request);
  };
  EXPECT_EQ(refused([](InterpretRequest&) {}), "");
  EXPECT_EQ(refused([](InterpretRequest& request) { request.feeds.erase("label"); }),
            "nothing is fed to `label`: every input needs its values, `--feed NAME=FILE.npy`");
  EXPECT_EQ(refused([](InterpretRequest& request) { request.feeds["lable"] = request.feeds["label"]; }),
            "the model has no input `lable`; did you mean `label`?");
  EXPECT_EQ(refused([](InterpretRequest& request) {
              const int32_t large = 5;
              std::memcpy(request.feeds["label"].data.data() + 2 * sizeof large, &large, sizeof large);
            }),
            "feed `label` holds 5 at [2], but its indices must lie in 0 to 4");
  EXPECT_EQ(refused([](InterpretRequest& request) {
              request.feeds["image"].shape = {7, 6};
            }),
            "feed `image` has shape [7, 6], but needs [batch = 6, pixel = 7]");
  EXPECT_EQ(refused([](InterpretRequest& request) { request.feeds["label"] = make_array(Type::f32, {6}); }),
            "feed `label` holds f32 numbers, but needs i32: convert the array first");
  EXPECT_EQ(refused([](InterpretRequest& request) {
              const double large = 1e300;
              request.feeds["image"] = make_array(Type::f64, {6, 7});
              std::memcpy(request.feeds["image"].data.data() + 8 * sizeof large, &large, sizeof large);
            }),
            "feed `image` holds 1e+300 at [1, 1], which is beyond f32");
  // Whole numbers are as good for reals, as the data of a run.
  EXPECT_EQ(refused([](InterpretRequest& request) { request.feeds["image"] = make_array(Type::i32, {6, 7}); }), "");
  EXPECT_EQ(refused([](InterpretRequest& request) { request.stored["w3"] = make_array(Type::f32, {1}); }),
            "the model has no parameter `w3`; did you mean `w1`?");
  // 64-bit labels are as good, as long as they fit.
  EXPECT_EQ(refused([](InterpretRequest& request) { request.feeds["label"] = make_array(Type::i64, {6}); }), "");
}

TEST(Steps, ShowParametersBeforeAndAfter) {
  const Program program = program_of(perceptron(), {{"x", 2}}, {{"batch", "x"}});
  InterpretRequest request{program};
  request.feeds = random_feeds(program, 1);
  request.steps = 2;
  const InterpretResult two = interpret(request);
  request.steps = 3;
  const InterpretResult three = interpret(request);
  ASSERT_EQ(two.metrics.size(), 2u);
  EXPECT_EQ(two.metrics[0], three.metrics[0]);
  EXPECT_LT(three.metrics[2][0], three.metrics[0][0]);  // it learns
  for (const char* path : {"w1", "b1", "w2", "b2", "w1.moment1"}) {
    EXPECT_EQ(two.after.at(path).data, three.before.at(path).data) << path;
    EXPECT_NE(two.after.at(path).data, three.after.at(path).data) << path;
  }
  EXPECT_EQ(two.before.at("image").data, request.feeds.at("image").data);
  // Gradients are those of the parameters before: a first step from given parameters gives the same ones.
  request.steps = 1;
  for (const char* path : {"w1", "b1", "w2", "b2"}) request.stored[path] = two.after.at(path);
  const InterpretResult again = interpret(request);
  for (const auto& [name, array] : again.wanted) EXPECT_EQ(array.data, three.wanted.at(name).data) << name;
}

}  // namespace
}  // namespace mesh::tests
