// What a run does with its evaluations: the best checkpoint, an early end, and how both are told, also in parts.
#include "driver/judge.h"

#include <gmock/gmock.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/file_plan.h"
#include "fit_mean.h"
#include "meshrt/driver.h"
#include "meshrt/launch.h"
#include "meshrt/npy.h"
#include "test_files.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

/// A run that a signal asks to end in a step.
class Signalled : public FitMean {
 public:
  Signalled(int ranks, int64_t step) : FitMean(ranks), step_(step) {}
  void run(size_t entry, const StepInput& input, std::span<double> results) override {
    if (entry == 0 && input.step == step_) raise(SIGTERM);
    FitMean::run(entry, input, results);
  }

 private:
  int64_t step_;
};

// The number is fitted to 2 from 4 on, a little in each step; evaluations are of samples of 3. So they get better, and
// then worse.
class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    write("x.npy", {1, 3, 1, 3, 1, 3});
    write("v.npy", {3, 3, 3, 3, 3, 3});
  }

  void write(const std::string& name, const std::vector<float>& values) const {
    const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
    write_npy(folder_.path(name), Type::f32, shape, std::as_bytes(std::span(values)));
  }

  struct Ran {
    int code = 0;
    std::string out, failure;
    std::vector<json> lines;
    std::vector<json> evaluations;
  };
  /// `keys` replace or add keys of a run file of 40 steps with an evaluation after every second.
  Ran run(int ranks, const std::vector<std::string>& keys, const std::string& name = "c", int64_t signal_in = -1) {
    const std::string text =
        "data: { x: {file: x.npy} }\nvalidation: { every: 2, x: {file: v.npy} }\ntrain: { steps: "
        "40, lr: 0.04 }\nlog: { jsonl: '" +
        folder_.path(name + ".jsonl") + "' }\ncheckpoint: { dir: '" + folder_.path(name) + "' }\n";
    Ran result;
    std::FILE* out = std::fopen(folder_.path("out.txt").c_str(), "w");
    result.code = launch_threads(ranks, [&](Rank& rank) {
      Signalled program(ranks, signal_in);
      try {
        return train(rank, program, parse_run_file("run.yaml", text, folder_.path(""), keys), {out, Color::never});
      } catch (const Failure& failure) {
        if (rank.rank() == 0) result.failure = folder_.without_folder(failure.what());
        return exit_code(failure.cause);
      }
    });
    std::fclose(out);
    result.out = folder_.without_folder(folder_.read("out.txt"));
    std::ifstream file(folder_.path(name + ".jsonl"));
    for (std::string line; std::getline(file, line);) {
      result.lines.push_back(json::parse(line));
      if (result.lines.back().contains("validation")) result.evaluations.push_back(result.lines.back());
    }
    return result;
  }
  std::string best_of(const std::string& name = "c") const {
    std::error_code none;
    return fs::read_symlink(folder_.path(name + "/best"), none).string();
  }
  std::vector<int64_t> steps_of(const std::string& name = "c") const {
    return CheckpointFolder(folder_.path(name)).steps();
  }
  Course course_of(const std::string& checkpoint) const {
    return read_manifest(folder_.path(checkpoint + "/checkpoint.json")).course;
  }

  TestFolder folder_;
};

/// Step of the evaluation whose loss is the smallest.
int64_t best_step(const std::vector<json>& evaluations) {
  const auto loss = [](const json& line) { return line["validation"]["loss"].get<double>(); };
  return std::ranges::min_element(evaluations, {}, loss)->at("step");
}

TEST_F(JudgeTest, KeepsTheBestCheckpoint) {
  for (const int ranks : {1, 2, 3}) {
    const std::string name = "c" + std::to_string(ranks);
    const Ran ran = run(ranks, {"checkpoint.best={}", "checkpoint.keep=2", "checkpoint.every=5"}, name);
    const int64_t best = best_step(ran.evaluations);
    EXPECT_GT(best, 2);
    EXPECT_LT(best, 20);
    EXPECT_EQ(best_of(name), "step-" + std::to_string(best));
    EXPECT_EQ(steps_of(name), (std::vector<int64_t>{best, 35, 40}));
    EXPECT_THAT(ran.out, HasSubstr("those of the best evaluation are in " + name + "/step-" + std::to_string(best)));
  }
}

TEST_F(JudgeTest, TheLargestOrTheSmallestIsTheBest) {
  const Ran largest = run(1, {"train.steps=12", "checkpoint.best={metric: distance, mode: max}"});
  EXPECT_EQ(best_of(), "step-2");
  EXPECT_EQ(steps_of(), (std::vector<int64_t>{2, 12}));
  run(1, {"train.steps=12", "checkpoint.best={metric: loss, mode: max}"}, "d");
  EXPECT_EQ(best_of("d"), "step-2");
  run(1, {"train.steps=12", "checkpoint.best={metric: distance, mode: min}"}, "e");
  EXPECT_EQ(best_of("e"), "step-" + std::to_string(best_step(largest.evaluations)));
}

TEST_F(JudgeTest, EndsARunThatGetsNoBetter) {
  const Ran whole = run(1, {"checkpoint.best={}"}, "whole");
  const int64_t best = best_step(whole.evaluations);
  for (const int ranks : {1, 2}) {
    const std::string name = "c" + std::to_string(ranks);
    const Ran ran = run(ranks, {"train.stop={patience: 3}", "checkpoint.best={}"}, name);
    EXPECT_EQ(ran.evaluations.back()["step"], best + 6);
    std::vector<int64_t> kept;  // each that was better than all before, and the last
    for (int64_t step = 2; step <= best; step += 2) kept.push_back(step);
    kept.push_back(best + 6);
    EXPECT_EQ(steps_of(name), kept);
    EXPECT_EQ(best_of(name), "step-" + std::to_string(best));
    EXPECT_THAT(ran.out, HasSubstr("train.stop has ended the run after step " + std::to_string(best + 6) +
                                   " of 40: `loss` was best, "));
    EXPECT_THAT(ran.out,
                HasSubstr(", after step " + std::to_string(best) + ", and 3 evaluations since were no better\n"));
  }
}

// A run that is stopped and goes on, also more than once, ends where one ends that was never stopped.
TEST_F(JudgeTest, ARunInPartsIsJudgedAsAWhole) {
  const std::vector<std::string> keys = {"train.stop={patience: 4}", "checkpoint.best={}"};
  const Ran whole = run(2, keys, "whole");
  for (const std::vector<int>& ends : std::vector<std::vector<int>>{{4}, {8}, {6, 10}, {2, 8, 14}}) {
    fs::remove_all(folder_.path("c"));
    fs::remove(folder_.path("c.jsonl"));
    Ran ran;
    for (const int end : ends) {
      std::vector<std::string> part = keys;
      part.push_back("train.steps=" + std::to_string(end));
      ran = run(2, part);
    }
    ran = run(2, keys);
    EXPECT_EQ(best_of(), best_of("whole"));
    EXPECT_EQ(steps_of().back(), steps_of("whole").back());
    EXPECT_EQ(course_of("c/latest").best, course_of("whole/latest").best);
    EXPECT_EQ(ran.evaluations.back()["validation"], whole.evaluations.back()["validation"]);
  }
}

// Also where the signal comes in a step with an evaluation, which the run then begins with.
TEST_F(JudgeTest, ARunThatIsStoppedIsJudgedAsAWhole) {
  const std::vector<std::string> keys = {"train.stop={patience: 4}", "checkpoint.best={}", "checkpoint.every=3"};
  const Ran whole = run(2, keys, "whole");
  for (const int64_t step : {5, 6, 8, 11}) {
    fs::remove_all(folder_.path("c"));
    fs::remove(folder_.path("c.jsonl"));
    EXPECT_EQ(run(2, keys, "c", step).code, exit_stopped);
    const Ran ran = run(2, keys);
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, testing::StartsWith("goes on from c/step-" + std::to_string(step)));
    EXPECT_EQ(best_of(), best_of("whole"));
    EXPECT_EQ(course_of("c/latest"), course_of("whole/latest"));
    ASSERT_EQ(ran.evaluations.size(), whole.evaluations.size()) << step;
    for (size_t i = 0; i < ran.evaluations.size(); ++i) {
      EXPECT_EQ(ran.evaluations[i]["step"], whole.evaluations[i]["step"]);
      EXPECT_EQ(ran.evaluations[i]["validation"], whole.evaluations[i]["validation"]);
    }
  }
}

TEST_F(JudgeTest, MorePatienceGoesOn) {
  const Ran first = run(1, {"train.stop={patience: 2}"});
  const int64_t end = first.evaluations.back()["step"];
  const Ran again = run(1, {"train.stop={patience: 2}"});
  EXPECT_THAT(again.out, HasSubstr("nothing is left to do: `loss` was best, "));
  EXPECT_THAT(again.out, HasSubstr("; a longer train.stop.patience goes on\n"));
  EXPECT_EQ(again.evaluations.back()["step"], end);
  EXPECT_EQ(again.evaluations.back()["validation"], first.evaluations.back()["validation"]);
  EXPECT_EQ(run(1, {"train.stop={patience: 5}"}).evaluations.back()["step"], end + 6);
}

// Also where the first run did not evaluate: the numbers are those of `evaluate`, bit by bit.
TEST_F(JudgeTest, AFinishedRunTellsHowItHasEnded) {
  run(1, {"validation="}, "c");
  const Ran whole = run(1, {}, "whole");
  const Ran again = run(1, {"checkpoint.best={}"});
  EXPECT_THAT(again.out, HasSubstr("nothing is left to do of train.steps=40"));
  EXPECT_EQ(again.evaluations.back()["validation"], whole.evaluations.back()["validation"]);
  EXPECT_EQ(best_of(), "step-40");
  EXPECT_EQ(course_of("c/step-40").evaluated, 40);
}

TEST_F(JudgeTest, TellsMeansOverTheSteps) {
  const Ran each = run(1, {"log.every=1"}, "each"), means = run(2, {"log.every=7", "log.mean=true"}, "means");
  std::vector<double> losses = {0};
  for (const json& line : each.lines)
    if (line.contains("loss")) losses.push_back(line["loss"]);
  ASSERT_EQ(losses.size(), 41U);
  int64_t before = 0;
  for (const json& line : means.lines) {
    if (!line.contains("loss")) continue;
    const int64_t step = line["step"];
    double mean = 0;
    for (int64_t s = before + 1; s <= step; ++s) mean += losses[static_cast<size_t>(s)];
    EXPECT_EQ(line["mean_of"], step - before);
    EXPECT_NEAR(line["loss"].get<double>(), mean / static_cast<double>(step - before), 1e-12);
    before = step;
  }
  EXPECT_EQ(before, 40);
  EXPECT_THAT(means.out, HasSubstr("(mean of 7 steps)"));
  EXPECT_THAT(means.out, HasSubstr("(mean of 5 steps)"));
  EXPECT_FALSE(each.lines.back().contains("mean_of"));
}

// A run that is stopped between two lines tells the mean of all steps between them.
TEST_F(JudgeTest, MeansGoOnWithTheRun) {
  const std::vector<std::string> keys = {"log.every=10", "log.mean=true", "validation="};
  const Ran whole = run(1, keys, "whole");
  std::vector<std::string> part = keys;
  part.push_back("checkpoint.every=7");  // and the last line is of step 10, two checkpoints later
  run(1, part);
  const Ran parts = [&] {
    fs::remove_all(folder_.path("c/step-40"));
    for (const int64_t step : steps_of())
      if (step > 7) fs::remove_all(folder_.path("c/step-" + std::to_string(step)));
    fs::remove(folder_.path("c/latest"));
    return run(1, keys);
  }();
  EXPECT_THAT(parts.out, HasSubstr("goes on from c/step-7 after step 7"));
  const auto told = [](const Ran& ran) {
    std::vector<json> lines;
    for (const json& line : ran.lines)
      if (line.contains("loss")) lines.push_back({line["step"], line["loss"], line["mean_of"]});
    return lines;
  };
  EXPECT_EQ(told(parts), told(whole));
}

TEST_F(JudgeTest, MetricsThatAreNotThereAreRefused) {
  const auto said = [&](const std::vector<std::string>& keys) { return run(1, keys).failure; };
  EXPECT_EQ(said({"checkpoint.best={metric: distanc}"}),
            "`FitMean` has no metric `distanc`\n  --> command line\n1 | checkpoint.best={metric: distanc}\n"
            "  |                          ^^^^^^^ did you mean `distance`?");
  EXPECT_EQ(said({"train.stop={metric: distance, patience: 2}"}),
            "which values of `distance` are better?\n  --> command line\n1 | train.stop={metric: distance, patience: "
            "2}\n  |                     ^^^^^^^^ `mode: max`, the large ones, or `mode: min`");
}

TEST(Judge, ANumberThatIsNotFiniteIsNeverTheBest) {
  ProgramInfo info;
  info.metrics = {"loss"};
  const RunFile run = parse_run_file(
      "run.yaml", "validation: { every: 1 }\ncheckpoint: { dir: c, best: {} }\ntrain: { stop: { patience: 3 } }\n", "");
  Judge judge(info, run);
  int64_t step = 0;
  const auto hear = [&](double loss) { judge.hear(++step, std::vector{loss}); };
  hear(std::nan(""));
  EXPECT_EQ(judge.best_step(), -1);
  hear(5);
  hear(-std::numeric_limits<double>::infinity());
  hear(5);  // no better
  EXPECT_EQ(judge.best_step(), 2);
  EXPECT_EQ(judge.verdict(), "");
  EXPECT_TRUE(judge.may_end());
  judge.hear(4, std::vector{1.0});  // heard before
  hear(std::nan(""));
  EXPECT_EQ(judge.verdict(), "`loss` was best, 5, after step 2, and 3 evaluations since were no better");
  hear(4);
  EXPECT_EQ(judge.verdict(), "");
  EXPECT_TRUE(judge.is_best());
}

TEST(Judge, AllThatIsHeardIsKept) {
  Manifest manifest;
  manifest.course = {.evaluated = 12,
                     .best = {{"loss", false, 0.1, 10, 1}, {"accuracy", true, 0, -1, 3}},
                     .unlogged = 4,
                     .sums = {{"loss", 1.0 / 3}}};
  const TestFolder folder;
  EXPECT_EQ(read_manifest(folder.write("checkpoint.json", manifest_text(manifest))).course, manifest.course);
  manifest.course = {};
  EXPECT_EQ(manifest_text(manifest).find("course"), std::string::npos);
}

}  // namespace
}  // namespace meshrt
