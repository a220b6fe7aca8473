// What a run leaves behind: its folder, curve, trace, summary.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "files/yaml_reader.h"
#include "fit_mean.h"
#include "meshrt/driver.h"
#include "meshrt/launch.h"
#include "report/curve.h"
#include "report/event_file.h"
#include "report/memory_use.h"
#include "report/run_folder.h"
#include "report/summary.h"
#include "report/top_lines.h"
#include "test_files.h"

namespace meshrt {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    std::string values;
    for (int i = 0; i < 30; ++i) values += bytes_of<uint8_t>({static_cast<uint8_t>(i % 5)});
    folder_.write("x.bin", values);
  }
  RunFile run_file(const std::string& more) const {
    return parse_run_file("run.yaml", "data: { x: {file: x.bin, type: u8} }\n" + more, folder_.path(""));
  }
  /// Trains on `ranks` with the run's folder `name`; what rank 0 prints.
  std::string train_into(const std::string& name, int ranks, const std::string& more) {
    const RunFile run = run_file(more);
    std::FILE* out = std::fopen(folder_.path("out.txt").c_str(), "w");
    DriverOptions options{out, Color::never};
    options.run_folder = name.empty() ? "" : folder_.path(name);
    code_ = launch_threads(ranks, [&](Rank& rank) {
      FitMean program(ranks);
      return train(rank, program, run, options);
    });
    std::fclose(out);
    return folder_.read("out.txt");
  }

  TestFolder folder_;
  int code_ = 0;
};

TEST_F(ReportTest, TheChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);            // the value that every description of it gives
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(""), 0u);
}

TEST_F(ReportTest, ResolvesTheRunFile) {
  const RunFile run = parse_run_file("run.yaml", "data: { x: {file: x.bin, type: u8} }\ntrain: { steps: 4, seed: 2 }\n",
                                     folder_.path(""), {"train.steps=6", "log.jsonl=\"12\""});
  EXPECT_EQ(run.resolved, "data:\n  x: {file: " + folder_.path("x.bin") +
                              ", type: u8}\ntrain:\n  steps: 6\n  seed: 2\nlog:\n  jsonl: \"12\"\n");
  const RunFile again = parse_run_file("again.yaml", run.resolved, "elsewhere");
  EXPECT_EQ(again.resolved, run.resolved);
  EXPECT_EQ(again.train.steps.value, 6);
  EXPECT_EQ(again.log.jsonl.value, "12");
}

TEST_F(ReportTest, CountsFoldersAndGoesOnInTheOneOfItsCheckpoints) {
  ProgramInfo info;
  info.spec = "some/fit.mesh";
  const std::string parent = folder_.path("runs");
  folder_.write("c/latest", "");
  const RunFile plain = run_file(""), kept = run_file("checkpoint: { dir: " + folder_.path("c") + " }");
  EXPECT_EQ(make_run_folder({"", parent, 0}, info, plain), parent + "/fit-0001");
  EXPECT_EQ(make_run_folder({"", parent, 0}, info, kept), parent + "/fit-0002");
  EXPECT_EQ(make_run_folder({"", parent, 0}, info, plain), parent + "/fit-0003");
  folder_.write("runs/fit-0002/metrics.jsonl",
                "{\"schema\": 1, \"checkpoints\": \"" + folder_.path("runs/../c/") + "\"}\n");
  EXPECT_EQ(make_run_folder({"", parent, 8}, info, kept), parent + "/fit-0002");
  EXPECT_EQ(make_run_folder({"", parent, 8}, info, run_file("checkpoint: { dir: d }")), parent + "/fit-0004");
  EXPECT_EQ(make_run_folder({folder_.path("mine"), parent, 0}, info, plain), folder_.path("mine"));
  EXPECT_EQ(make_run_folder({"none", parent, 0}, info, plain), "");
  EXPECT_EQ(make_run_folder({"", "none", 0}, info, plain), "");
  try {
    make_run_folder({folder_.path("x.bin/sub"), parent, 0}, info, plain);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(folder_.without_folder(failure.what()),
              "cannot make the run folder `x.bin/sub`: Not a directory\n`--run-dir DIR` names another, `--run-dir "
              "none` runs without");
  }
}

TEST_F(ReportTest, ASecondRunInANamedFolderKeepsTheFirst) {
  folder_.write("r/run.yaml", "mine");  // of somebody who keeps his run file there
  folder_.write("r/notes.txt", "mine");
  const std::string first = train_into("r", 1, "train: { steps: 2 }");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("r/earlier-0001")));
  const std::string curve = folder_.read("r/metrics.jsonl");
  // A record that was cut short under another run's mapping would kill that: each run has a file of its own.
  std::filesystem::create_hard_link(folder_.path("r/flight/rank-0000"), folder_.path("record"));
  const std::string record = folder_.read("record");
  folder_.write("r/spec/net.mesh", "the first");  // as `meshc run` puts it there
  const std::string second = train_into("r", 1, "train: { steps: 3 }");
  EXPECT_EQ(folder_.read("record"), record);
  EXPECT_EQ(folder_.read("r/earlier-0001/flight/rank-0000"), record);
  EXPECT_EQ(folder_.read("r/earlier-0001/spec/net.mesh"), "the first");
  EXPECT_THAT(folder_.without_folder(second),
              testing::StartsWith("what an earlier run has left in r is in r/earlier-0001 now\n"));
  EXPECT_EQ(folder_.read("r/log.txt"), second);
  EXPECT_EQ(folder_.read("r/earlier-0001/log.txt"), first);
  EXPECT_EQ(folder_.read("r/earlier-0001/metrics.jsonl"), curve);
  EXPECT_THAT(folder_.read("r/earlier-0001/run.yaml"), HasSubstr("steps: 2"));
  EXPECT_EQ(folder_.read("r/notes.txt"), "mine");
  train_into("r", 1, "train: { steps: 4 }");
  EXPECT_EQ(folder_.read("r/earlier-0002/log.txt"), second);
}

TEST_F(ReportTest, TwoRunsAtOnceDoNotShareAFolder) {
  const std::string first = train_into("r", 1, "train: { steps: 2 }");
  {
    const FolderLock other = lock_run_folder(folder_.path("r"));
    testing::internal::CaptureStderr();
    train_into("r", 2, "train: { steps: 2 }");
    EXPECT_THAT(folder_.without_folder(testing::internal::GetCapturedStderr()),
                testing::MatchesRegex(
                    "rank 0: another run .process [0-9]+ on [^ ]+. writes into `r`: wait for its end, or name "
                    "another folder with `--run-dir`\n"));
    EXPECT_EQ(code_, 3);
    EXPECT_EQ(folder_.read("r/log.txt"), first);
  }
  // Checkpoints may lie in the run's folder itself.
  train_into("r", 1, "train: { steps: 2 }\ncheckpoint: { dir: '" + folder_.path("r") + "' }");
  EXPECT_EQ(code_, 0);
}

TEST_F(ReportTest, ARunFillsItsFolder) {
  const std::string out =
      train_into("r", 2, "validation: { every: 4 , x: {from: 0} }\ntrain: { steps: 8 }\nlog: { every: 2 }");
  EXPECT_EQ(code_, 0);
  EXPECT_EQ(folder_.read("r/log.txt"), out);
  EXPECT_THAT(folder_.read("r/run.yaml"), HasSubstr("steps: 8"));
  EXPECT_THAT(folder_.read("r/metrics.jsonl"), HasSubstr("\"validation\""));
  EXPECT_THAT(folder_.read("r/loss.svg"), HasSubstr("validation loss"));
  const json summary = json::parse(folder_.read("r/summary.json"));
  EXPECT_GT(summary["measured"]["seconds_per_step"].get<double>(), 0);
  EXPECT_EQ(summary["measured"]["bytes_sent_per_step"], 16);  // two sums of 8 bytes over two ranks
  EXPECT_FALSE(summary.contains("predicted"));
  EXPECT_EQ(train_into("", 2, "train: { steps: 2 }").find("kept in"), std::string::npos);
}

// A folder that is not empty where a file is to be, which nobody can replace, not even root.
TEST_F(ReportTest, FilesThatCannotBeWrittenFailNoRun) {
  for (const char* name : {"summary.json", "trace.json", "loss.svg"})
    folder_.write(std::string("r/") + name + "/x", "");
  const std::string rest = "log: { every: 1, trace: {steps: 2} }\ncheckpoint: { dir: '" + folder_.path("c") + "' }\n";
  testing::internal::CaptureStderr();
  const std::string out = train_into("r", 2, rest + "train: { steps: 100000000, max_time: 1 }");
  EXPECT_EQ(code_, 75);
  const std::string told = folder_.without_folder(testing::internal::GetCapturedStderr());
  for (const char* name : {"summary.json", "trace.json", "loss.svg"})
    EXPECT_EQ(told.find(name), told.rfind(name)) << told;  // once
  EXPECT_THAT(told, HasSubstr("warning: cannot write `r/summary.json`: Is a directory; the run goes on without it\n"));
  EXPECT_THAT(told, HasSubstr("warning: cannot write `r/trace.json`: Is a directory; the run goes on without it\n"));
  EXPECT_THAT(told, HasSubstr("warning: cannot write `r/loss.svg`: Is a directory; the run goes on\n"));
  EXPECT_EQ(out.find("the trace is in"), std::string::npos);
  EXPECT_THAT(out, HasSubstr("this run is kept in "));
}

TEST_F(ReportTest, WhatWasRunIsCopiedWhereItCanBe) {
  folder_.write("p/plan.txt", "new");
  folder_.write("p/spec/a.mesh", "new");
  std::filesystem::create_symlink("nowhere", folder_.path("p/spec/b.mesh"));
  folder_.write("r/plan.txt", "old");
  folder_.write("r/spec/a.mesh", "old");
  folder_.write("r/run.yaml/x", "");
  testing::internal::CaptureStderr();
  describe_run(folder_.path("r"), folder_.path("p"), run_file(""), true);
  EXPECT_EQ(folder_.without_folder(testing::internal::GetCapturedStderr()),
            "warning: cannot write `r/run.yaml`: Is a directory; the run goes on without it\n"
            "warning: cannot write `r/spec`: No such file or directory; the run goes on without it\n");
  EXPECT_EQ(folder_.read("r/plan.txt"), "new");
  EXPECT_EQ(folder_.read("r/spec/a.mesh"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("r/spec.unfinished")));
  // One that begins tells its mistakes before it computes.
  EXPECT_EQ(folder_.without_folder(
                failure_of([&] { describe_run(folder_.path("r"), folder_.path("p"), run_file(""), false); })),
            "cannot write `r/run.yaml`: Is a directory");
}

TEST_F(ReportTest, EventsHoldWhatIsWatched) {
  train_into("r", 1, "train: { steps: 2 }\nlog: { every: 1, watch: [w, grad_norm] }");
  const std::string events = folder_.read("r/events.out.tfevents.0000000000.meshwright");
  for (const char* tag : {"loss/train", "watch/w", "watch/grad_norm"}) EXPECT_THAT(events, HasSubstr(tag));
}

TEST_F(ReportTest, TracesTheStepsThatItIsAskedFor) {
  const std::string out = train_into("r", 2, "train: { steps: 8 }\nlog: { trace: {steps: 3..4} }");
  EXPECT_THAT(out, HasSubstr("the trace is in " + folder_.path("r/trace.json")));
  std::map<int, std::vector<std::string>> names;
  std::map<int, double> end;  // of a rank's work so far
  const json trace = json::parse(folder_.read("r/trace.json"));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["tid"] != 0 || event["cat"] == "nest") continue;
    const int rank = event["pid"];
    const bool step = event["cat"] == "step";
    const double start = event["ts"];
    if (!step) {
      EXPECT_GE(start, end[rank]);
    }
    end[rank] = start + (step ? 0 : event["dur"].get<double>());
    names[rank].push_back(event["name"]);
  }
  for (const int rank : {0, 1})
    EXPECT_THAT(names[rank], ElementsAre("step 3", "all_reduce sum", "all_reduce sum", "step 4", "all_reduce sum",
                                         "all_reduce sum"));
}

TEST_F(ReportTest, ATraceEndsWithItsRun) {
  train_into("", 1, "train: { steps: 3 }\nlog: { trace: {steps: 3..9, file: " + folder_.path("t/trace.json") + "} }");
  EXPECT_THAT(folder_.read("t/trace.json"), HasSubstr("\"step 3\""));
}

TEST_F(ReportTest, RefusesTracesThatMakeNoSense) {
  const auto mistake = [&](const std::string& trace) {
    try {
      run_file("train: { steps: 4 }\nlog: { trace: " + trace + " }");
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_THAT(mistake("{steps: 4..2}"),
              HasSubstr("`log.trace.steps` must be a step or a range of them, such as 10..12"));
  EXPECT_THAT(mistake("{steps: 1..5000}"), HasSubstr("`log.trace.steps` are 5000; a trace has at most 1000"));
  EXPECT_THAT(mistake("{file: t.json}"), HasSubstr("`log.trace` does not say of which steps"));
  EXPECT_THAT(mistake("3"), HasSubstr("`log.trace` must be a map of keys and values"));
  EXPECT_EQ(step_range("7")->last, 7);
  EXPECT_EQ(step_range("7..9")->last, 9);
  for (const char* wrong : {"", "0", "..3", "3..", "5..4", "a..b", "1...3"}) EXPECT_FALSE(step_range(wrong)) << wrong;
}

TEST_F(ReportTest, ATraceNeedsAPlace) {
  const RunFile run = run_file("train: { steps: 4 }\nlog: { trace: {steps: 2} }");
  std::string what;
  launch_threads(1, [&](Rank& rank) {
    FitMean program(1);
    try {
      return train(rank, program, run, {});
    } catch (const Failure& failure) {
      what = failure.what();
      return 1;
    }
  });
  EXPECT_THAT(what, HasSubstr("the trace has no place to go: this run has no folder"));
  EXPECT_THAT(what, HasSubstr("`file: out/trace.json` beside `steps`"));
}

TEST_F(ReportTest, DrawsTheCurve) {
  Curve curve("loss");
  curve.add_line(json::parse(R"({"schema": 1})"));
  curve.add_line(json::parse(R"({"step": 1, "loss": 2.5})"));
  EXPECT_EQ(curve.picture(), "");  // a point is no curve
  for (int step = 2; step <= 3000; ++step) curve.add_training(step, 2.5);
  for (const char* line : {R"({"step": 10, "loss": null})", R"({"step": 10, "loss": "high"})", R"({"step": "10"})",
                           R"({"step": 100, "validation": {"loss": 2.75}})"})
    curve.add_line(json::parse(line));
  curve.add_training(3001, std::nan(""));
  const std::string picture = curve.picture();
  EXPECT_THAT(picture, testing::StartsWith("<svg "));
  EXPECT_THAT(picture, HasSubstr("loss: 2.5"));
  EXPECT_THAT(picture, HasSubstr("validation loss: 2.75"));
  EXPECT_LT(picture.size(), 20'000u);  // points that cannot be told apart are joined
}

// Shared memory is told by its own addresses; what is private to the process counts, with pages of libraries that were
// written to, which are the libraries'.
TEST(MemoryUse, TellsLibrariesAndFilesApart) {
  const MemoryUse use = memory_use_of(
      "55d0-55d1 r--p 00000000 08:01 11     /home/u/gpt\nRss: 8 kB\nAnonymous: 0 kB\n"
      "55d1-55d2 r-xp 00001000 08:01 11     /home/u/gpt\nRss: 100 kB\nAnonymous: 0 kB\n"
      "55d2-55d3 rw-p 00001000 08:01 11     /home/u/gpt\nRss: 4 kB\nAnonymous: 4 kB\n"
      "5600-5601 rw-p 00000000 00:00 0      [heap]\nRss: 70 kB\nAnonymous: 64 kB\nVmFlags: rd wr\n"
      "7f00-7f01 rw-p 00000000 00:00 0 \nRss: 1024 kB\nAnonymous: 1024 kB\n"
      "7f01-7f02 rw-s 00000000 00:01 77     /memfd:meshrt (deleted)\nRss: 4096 kB\nAnonymous: 0 kB\n"
      "7f03-7f04 r--s 00000000 08:01 12     /data/train set.bin\nRss: 500 kB\nAnonymous: 0 kB\n");
  EXPECT_EQ(use.own, (64 + 1024) << 10);
  EXPECT_EQ(use.libraries, 112 << 10);
  EXPECT_EQ(use.files, 500 << 10);
  const MemoryUse before = memory_use();
  std::vector<char> mebibytes(64 << 20, 1);
  const int64_t more = memory_use().own - before.own;
  EXPECT_GE(more, 64 << 20);
  EXPECT_LE(more, 65 << 20);
  const auto page = static_cast<size_t>(getpagesize());
  const auto begin = (reinterpret_cast<uintptr_t>(mebibytes.data()) + page - 1) / page * page;
  EXPECT_EQ(resident(reinterpret_cast<void*>(begin), 32 << 20), 32 << 20);
}

TEST(TopLines, WhatIsWaitedForIsNoCostOfTheLine) {
  LineCosts costs;
  StepProfile profile;
  // Gives the seconds that have passed, at least so many.
  const auto pass = [](double seconds) {
    const auto start = std::chrono::steady_clock::now();
    std::chrono::duration<double> passed{};
    while (passed.count() < seconds) passed = std::chrono::steady_clock::now() - start;
    return passed.count();
  };
  costs.begin("a.mesh:1  late = x", profile);
  const double waited = pass(0.1);
  profile.collectives += waited, profile.waiting += waited;
  costs.begin("a.mesh:2  own = y", profile);
  pass(0.05);
  profile.collectives += 0.002;
  costs.begin(nullptr, profile);
  const std::vector<TopLine> lines = top_lines(costs, 1);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].place, "a.mesh:2");
  EXPECT_GE(lines[0].share, 0.5);
  EXPECT_DOUBLE_EQ(lines[0].per_step.collectives, 0.002);
  EXPECT_NEAR(lines[1].per_step.collectives, 0, 1e-12);
  EXPECT_DOUBLE_EQ(lines[1].per_step.waiting, waited);
}

TEST(TopLines, TheCostliestComeFirstAndNameTheirValues) {
  LineCosts costs;
  StepProfile profile;
  for (const auto& [line, milliseconds] :
       {std::pair("a.mesh:1  v1 = x", 2), std::pair("a.mesh:3  gradient of v3 = ...", 10),
        std::pair("a.mesh:3  v3 = x * y", 10)}) {
    costs.begin(line, profile);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (std::chrono::steady_clock::now() < until) {}
    if (milliseconds == 10) profile.products += 0.003;
  }
  costs.begin(nullptr, profile);
  costs.begin(nullptr, profile);
  const std::vector<TopLine> lines = top_lines(costs, 2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].place, "a.mesh:3");
  EXPECT_EQ(lines[0].text, "v3 = x * y");
  EXPECT_GE(lines[0].per_step.seconds, 0.010);
  EXPECT_DOUBLE_EQ(lines[0].per_step.products, 0.003);
  EXPECT_NEAR(lines[0].share + lines[1].share, 1, 1e-12);
  const std::vector<std::string> texts = top_lines_text(lines);
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts[1],
              testing::MatchesRegex(" +[0-9.]+ ms +[0-9.]+ %  a.mesh:3  v3 = x . y  products [0-9]+ %, nests .*"));
  const char* const others[] = {"b:1", "b:2", "b:3", "b:4", "b:5", "b:6", "b:7", "b:8", "b:9", "b:10", "b:11"};
  for (const char* line : others) costs.begin(line, profile);
  costs.begin(nullptr, profile);
  EXPECT_EQ(top_lines(costs, 1).size(), 10u);
  EXPECT_TRUE(top_lines_text(top_lines(LineCosts(), 1)).empty());
  EXPECT_EQ(value_named_by("q, k = split(x)"), "q, k");
  EXPECT_EQ(value_named_by("u <- next"), "u");
  EXPECT_EQ(value_named_by("minimize loss with sgd(lr: 1)"), "minimize loss with sgd(lr: 1)");
}

TEST_F(ReportTest, ACurveOfAnyLengthIsOfFewPoints) {
  Stretches curve;
  for (int step = 1; step <= 100'000; ++step) {
    curve.add(step, 2.0 * step);
    ASSERT_LE(curve.means().size(), step <= 600 ? static_cast<size_t>(step) : Stretches::most);
  }
  const std::vector<Stretches::Point> points = curve.means();
  EXPECT_GT(points.size(), Stretches::most / 2);
  EXPECT_EQ(points[0].step, 128.5);  // 256 a stretch
  EXPECT_EQ(points[1].step, 256 + 128.5);
  for (const Stretches::Point& point : points) EXPECT_EQ(point.value, 2 * point.step);
  EXPECT_GT(points.back().step, 100'000 - 256);
}

TEST_F(ReportTest, ComparesWithThePlan) {
  const auto plan =
      read_prediction(R"({"predicted_seconds": 0.002, "communication_bytes": 305, "memory": {"peak": 4000000}})");
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->sent, 305);
  EXPECT_EQ(summary_text(plan, {0.0031, 305, 5'000'000, 9'000'000, 2'000'000, 3'000'000}),
            "a step 2.00 ms predicted, 3.10 ms measured; sent by a rank 305 B predicted, 305 B measured; memory of a "
            "rank 3.8 MiB predicted, 4.8 MiB measured, beside 8.6 MiB of libraries, 2.9 MiB of copies for checkpoints "
            "and 1.9 MiB of files");
  EXPECT_EQ(summary_text({}, {2.5, 0, 5'000'000}),
            "a step 2.50 s; sent by a rank 0 B; memory of a rank 4.8 MiB, beside 0 B of libraries and 0 B of files");
  EXPECT_FALSE(read_prediction("").has_value());
  EXPECT_FALSE(read_prediction("[1, 2]").has_value());
}

}  // namespace
}  // namespace meshrt
