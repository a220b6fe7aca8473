#include <fmt/format.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "driver/finite_watch.h"
#include "fit_mean.h"
#include "meshrt/conv.h"
#include "meshrt/driver.h"
#include "meshrt/gemm.h"
#include "meshrt/launch.h"
#include "meshrt/npy.h"
#include "meshrt/safetensors.h"
#include "test_files.h"

namespace meshrt {
namespace {

class TrainTest : public testing::Test {
 protected:
  TrainTest() {
    std::vector<float> values(20);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 5);
    const std::vector<int64_t> shape = {20};
    write_npy(folder_.path("x.npy"), Type::f32, shape, std::as_bytes(std::span(values)));
  }

  /// What rank 0 prints; `failure` takes what a rank fails with.
  std::string run(int ranks, const std::string& text, std::string* failure = nullptr, double blow_up_at = -1,
                  bool dry = false) {
    const RunFile run_file = parse_run_file("run.yaml", text, folder_.path(""));
    std::FILE* out = std::fopen(folder_.path("out.txt").c_str(), "w");
    std::mutex mutex;
    const int code = launch_threads(ranks, [&](Rank& rank) {
      FitMean program(ranks, blow_up_at);
      try {
        return dry ? dry_run(rank, program, run_file, {out, Color::never})
                   : train(rank, program, run_file, {out, Color::never});
      } catch (const Failure& caught) {
        if (failure == nullptr) throw;
        const std::lock_guard lock(mutex);
        *failure = caught.what();
        return exit_code(caught.cause);
      }
    });
    EXPECT_EQ(code == 0, failure == nullptr);
    code_ = code;
    std::fclose(out);
    return folder_.read("out.txt");
  }
  std::string failure(const std::string& text, double blow_up_at = -1) {
    std::string what;
    run(1, text, &what, blow_up_at);
    return folder_.without_folder(what);
  }

  TestFolder folder_;
  int code_ = 0;
};

// The numbers in a text of JSON lines, without times.
std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(nlohmann::json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

TEST_F(TrainTest, TrainsTheSameOnEveryNumberOfRanks) {
  const std::string jsonl = folder_.path("sub/folder/m.jsonl");
  std::vector<std::vector<nlohmann::json>> runs;
  for (const int ranks : {1, 2, 4}) {
    run(ranks,
        "data: { x: {file: x.npy, to: 15} }\nvalidation: { every: 4, x: {from: 0} }\ntrain: { steps: 10 }\nlog: { "
        "every: 3, jsonl: " +
            jsonl + " }");
    runs.push_back(json_lines(folder_.read("sub/folder/m.jsonl")));
  }
  for (auto& lines : runs) {
    ASSERT_EQ(lines.size(), 1U + 4 + 3);  // head; steps 3, 6, 9, 10; validation at 4, 8, 10
    EXPECT_EQ(lines[0]["program"], "FitMean");
    EXPECT_EQ(lines[1]["step"], 3);
    EXPECT_GT(lines[1]["samples_per_second"], 0);
    EXPECT_EQ(lines[2]["step"], 4);
    EXPECT_EQ(lines[2]["batches"], 4);
    EXPECT_EQ(lines[7]["step"], 10);
    for (size_t i = 1; i < lines.size(); ++i) {
      const bool validation = lines[i].contains("validation");
      const auto value = [&](const auto& line) {
        return (validation ? line.at("validation") : line).at("loss").template get<double>();
      };
      EXPECT_NEAR(value(lines[i]), value(runs[0][i]), 1e-6);
    }
  }
  // Near the mean, 2, every sample is as far as the data spread: 0, 1, 2, 3, 4 have a variance of 2.
  EXPECT_NEAR(runs[0][7]["validation"]["loss"].get<double>(), 2, 0.3);
}

// A disk that is full of lines of metrics is no reason to lose what was learnt.
TEST_F(TrainTest, GoesOnWithoutAFileThatCannotBeWritten) {
  testing::internal::CaptureStderr();
  const std::string out =
      run(2, "data: { x: {file: x.npy} }\ntrain: { steps: 10 }\nlog: { every: 1, jsonl: /dev/full }");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: cannot write `/dev/full`: No space left on device; the run goes on\n");
  EXPECT_NE(out.find("done: 10 steps"), std::string::npos) << out;
}

TEST_F(TrainTest, RefusesATraceOfNoStep) {
  const std::string what =
      failure("data: { x: {file: x.npy} }\ntrain: { steps: 10 }\nlog: { trace: {steps: 11..12, file: t.json} }");
  EXPECT_TRUE(what.starts_with("the run has 10 steps, none of those to be traced\n  --> ")) << what;
}

// An input that validation does not name is read as in training: the same file, the same part of it.
TEST_F(TrainTest, ValidationReadsWhatItDoesNotName) {
  const auto validated = [&](const std::string& data, const std::string& validation) {
    run(2, "data: { x: " + data + " }\nvalidation: { every: 1" + validation +
               " }\ntrain: { steps: 1 }\nlog: { jsonl: " + folder_.path("m.jsonl") + " }");
    return json_lines(folder_.read("m.jsonl")).back();
  };
  const nlohmann::json unnamed = validated("{file: x.npy, to: 8}", ""),
                       named = validated("{file: x.npy, to: 8}", ", x: {to: 8}");
  EXPECT_EQ(unnamed["batches"], 2);
  EXPECT_EQ(unnamed["validation"], named["validation"]);
  EXPECT_EQ(validated("{mix: [{file: x.npy}, {file: x.npy}]}", ", steps: 3")["batches"], 3);
}

// The samples after the last whole batch count as those before, however many there are.
TEST_F(TrainTest, ValidationReadsTheWholeSet) {
  const double weight = 4 - 0.1 * 28 / 6;  // after one step on 0, 1, 2, 3, 4, 0
  for (const int ranks : {1, 2, 4})
    for (int size = 1; size <= 20; ++size) {
      run(ranks, "data: { x: {file: x.npy} }\nvalidation: { x: {to: " + std::to_string(size) +
                     "} }\ntrain: { steps: 1 }\nlog: { jsonl: " + folder_.path("m.jsonl") + " }");
      double loss = 0;
      for (int i = 0; i < size; ++i) loss += (i % 5 - weight) * (i % 5 - weight) / size;
      const nlohmann::json line = json_lines(folder_.read("m.jsonl")).back();
      EXPECT_EQ(line["batches"], (size + 5) / 6);
      EXPECT_NEAR(line["validation"]["loss"].get<double>(), loss, 1e-6 * loss) << size;
      EXPECT_NEAR(line["validation"]["distance"].get<double>(), std::sqrt(loss), 1e-6 * loss) << size;
    }
}

TEST_F(TrainTest, SaysWhatIsMixed) {
  const std::string out = run(1, "data: { x: {mix: [{file: x.npy, weight: 3}, {file: x.npy}]} }\ntrain: { steps: 1 }");
  EXPECT_TRUE(out.starts_with("data: 75 % of ")) << out;
  EXPECT_NE(out.find("x.npy, 25 % of "), std::string::npos) << out;
}

TEST_F(TrainTest, PlainLinesAndSummary) {
  const std::string out = run(
      2,
      "data: { x: {file: x.npy} }\nvalidation: { steps: 2, x: {} }\ntrain: { steps: 5, lr: 0.25 }\nlog: { every: 2 }");
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < out.size(); begin = out.find('\n', begin) + 1)
    lines.push_back(out.substr(begin, out.find('\n', begin) - begin));
  ASSERT_EQ(lines.size(), 6U) << out;
  EXPECT_TRUE(lines[0].starts_with("step 2/5  loss 2.")) << out;
  EXPECT_NE(lines[0].find("samples/s  ETA 0:00"), std::string::npos) << out;
  EXPECT_TRUE(lines[1].starts_with("step 4/5  loss ")) << out;
  EXPECT_TRUE(lines[2].starts_with("step 5/5  loss ")) << out;
  EXPECT_EQ(lines[2].find("ETA"), std::string::npos) << out;
  EXPECT_TRUE(lines[3].starts_with("validation at step 5  loss ")) << out;
  EXPECT_TRUE(lines[3].ends_with("(2 batches, 0.0 s)")) << out;
  EXPECT_TRUE(lines[4].starts_with("done: 5 steps in 0:00: loss ")) << out;
  EXPECT_EQ(lines[5], "the parameters are not kept: `checkpoint: { dir: FOLDER }` keeps them");
}

TEST_F(TrainTest, MetricsAreToldToFourDigitsWhateverTheirSize) {
  ProgramInfo info;
  info.metrics = {"loss", "other"};
  const std::string path = folder_.path("out.txt");
  {
    std::FILE* out = std::fopen(path.c_str(), "w");
    LogOptions options;
    options.out = out, options.color = Color::never, options.every = 1, options.steps = 4;
    {
      Log log(info, options);
      log.step(1, std::vector{6.54321e-6, 2.0});
      log.step(2, std::vector{0.0, -0.012345678});
      log.step(3, std::vector{999.96, 50257.4});
      log.validation(3, std::vector{1.23456e7, std::numeric_limits<double>::infinity()}, 1, 0);
      log.step(4, std::vector{1e-30, 123.4});
      log.summary();
    }
    std::fclose(out);
  }
  const std::string out = folder_.read("out.txt");
  for (const char* text : {"step 1/4  loss 6.543e-06  other 2.000  ", "step 2/4  loss 0  other -0.01235  ",
                           "step 3/4  loss 1000  other 50257  ", "validation at step 3  loss 1.235e+07  other inf  ",
                           "0:00: loss 1.000e-30  other 123.4, validation loss 1.235e+07"})
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n" << out;
}

// Beside the metrics in every line, in the order of the list, each once; not in validation.
TEST_F(TrainTest, LogsWhatIsWatched) {
  const std::string text =
      "data: { x: {file: x.npy} }\nvalidation: { x: {} }\ntrain: { steps: 2, lr: 0.25 }\nlog: { every: 1, jsonl: " +
      folder_.path("m.jsonl") + ", watch: ";
  const std::string out = run(2, text + "['**', grad_norm, w] }");
  const std::vector<nlohmann::json> lines = json_lines(folder_.read("m.jsonl"));
  ASSERT_EQ(lines.size(), 4U);  // head; steps 1, 2; validation
  // The first six samples are 0, 1, 2, 3, 4, 0, the next 1, 2, 3, 4, 0, 1; w is 4 at first.
  const double gradient = 2 * (4 - 10.0 / 6), second = 4 - gradient / 4;
  EXPECT_EQ(lines[1]["watch"].size(), 2U);
  EXPECT_EQ(lines[1]["watch"]["w"], 4);
  EXPECT_NEAR(lines[1]["watch"]["grad_norm"].get<double>(), gradient, 1e-6);
  EXPECT_NEAR(lines[2]["watch"]["w"].get<double>(), second, 1e-6);
  EXPECT_NEAR(lines[2]["watch"]["grad_norm"].get<double>(), 2 * (second - 11.0 / 6), 1e-6);
  EXPECT_FALSE(lines[3].contains("watch"));
  EXPECT_NE(out.find("  ETA 0:00  w 4.000  grad_norm 4.667\n"), std::string::npos) << out;
  const std::string fewer = run(1, text + "[w] }");
  EXPECT_NE(fewer.find("  w 4.000\n"), std::string::npos) << fewer;
  EXPECT_EQ(json_lines(folder_.read("m.jsonl"))[1]["watch"].size(), 1U);
  EXPECT_EQ(run(1, text + "[] }").find("w 4.000"), std::string::npos);
  EXPECT_FALSE(json_lines(folder_.read("m.jsonl"))[1].contains("watch"));
}

TEST_F(TrainTest, OnlyWhatTheProgramGivesIsWatched) {
  EXPECT_EQ(
      failure("log: { watch: [w, grad_nrm] }"),
      "`FitMean` is not compiled to watch `grad_nrm`: `meshc build fit.mesh RUN.yaml` compiles a program for what "
      "its run file watches\n  --> run.yaml:1:19\n1 | log: { watch: [w, grad_nrm] }\n  |                   "
      "^^^^^^^^ did you mean `grad_norm`?");
  EXPECT_EQ(code_, 1);
  std::string dry;
  run(1, "log: { watch: [layer.attn.wq] }", &dry, -1, true);
  EXPECT_NE(dry.find("^ known names: grad_norm, w, **"), std::string::npos) << dry;
}

TEST_F(TrainTest, SaysWhatAStepWentTo) {
  const std::string text =
      "data: { x: {file: x.npy} }\ntrain: { steps: 5 }\nlog: { every: 2, jsonl: " + folder_.path("m.jsonl") +
      ", profile: ";
  const std::string out = run(2, text + "true }");
  const std::vector<nlohmann::json> lines = json_lines(folder_.read("m.jsonl"));
  ASSERT_EQ(lines.size(), 4U);  // head; steps 2, 4, 5
  for (size_t i = 1; i < lines.size(); ++i) {
    const nlohmann::json& parts = lines[i].at("breakdown_ms");
    double sum = 0;
    for (const char* part : {"data", "products", "attention", "nests", "collectives", "waiting"}) {
      EXPECT_GE(parts.at(part).get<double>(), 0) << part;
      sum += parts.at(part).get<double>();
    }
    EXPECT_EQ(parts.size(), 6U);
    EXPECT_GT(parts.at("collectives").get<double>() + parts.at("waiting").get<double>(), 0);  // of the loss
    EXPECT_LE(sum, lines[i].at("seconds_per_step").get<double>() * 1e3);
  }
  EXPECT_NE(out.find("\na step of rank 0: data "), std::string::npos) << out;
  EXPECT_NE(out.find(" ms, products 0.00 ms, attention 0.00 ms, nests "), std::string::npos) << out;
  run(1, text + "false }");
  EXPECT_FALSE(json_lines(folder_.read("m.jsonl"))[1].contains("breakdown_ms"));
}

TEST_F(TrainTest, StopsAtALossThatIsNotFinite) {
  const std::string text = "data: { x: {file: x.npy} }\ntrain: { steps: 5 }\n";
  const std::string first = failure(text, 1), third = failure(text, 3);
  EXPECT_EQ(code_, 3);
  EXPECT_TRUE(first.starts_with("`loss` is nan at step 1; it is so from the beginning\n")) << first;
  EXPECT_TRUE(third.starts_with("`loss` is nan at step 3; after step 2 it was ")) << third;
  EXPECT_NE(run(1, text + "log: { nonfinite: warn }", nullptr, 3).find("`loss` is nan at step 3\n"), std::string::npos);
  EXPECT_EQ(run(1, text + "log: { nonfinite: ignore }", nullptr, 3).find("`loss`"), std::string::npos);
  run(1, text + "log: { nonfinite: ignore, jsonl: " + folder_.path("m.jsonl") + ", every: 1 }", nullptr, 3);
  EXPECT_TRUE(json_lines(folder_.read("m.jsonl"))[3]["loss"].is_null());
}

// A name that was mistyped costs no file of the user's.
TEST_F(TrainTest, FilesOfAnotherKindAreNotWrittenOver) {
  const std::string steps = "data: { x: {file: x.npy} }\ntrain: { steps: 1 }\n",
                    text = folder_.write("text.txt", "In the beginning\n"),
                    first = steps + "log: { jsonl: " + text + " }";
  EXPECT_EQ(failure(first), "`text.txt` is no log of a run, and `log.jsonl` does not write over it: name another file");
  EXPECT_EQ(code_, 1);
  EXPECT_TRUE(failure(steps + "output: { w: {file: " + text + "} }")
                  .starts_with("`text.txt` is no npy file, and is not written over\n"));
  EXPECT_EQ(folder_.read("text.txt"), "In the beginning\n");
  run(1,
      steps + "log: { jsonl: " + folder_.path("m.jsonl") + " }\noutput: { w: {file: " + folder_.path("w.npy") + "} }");
  run(1,
      steps + "log: { jsonl: " + folder_.path("m.jsonl") + " }\noutput: { w: {file: " + folder_.path("w.npy") + "} }");
}

TEST_F(TrainTest, FilesThatTheRunReadsAreNotWrittenOver) {
  const std::string steps = "data: { x: {file: x.npy} }\ntrain: { steps: 2 }\n", before = folder_.read("x.npy"),
                    x = folder_.path("x.npy");
  EXPECT_TRUE(failure(steps + "output: { w: {file: " + x + "} }")
                  .starts_with("`x.npy` would be written over, which the run reads as `data.x.file`\n"));
  EXPECT_TRUE(failure(steps + "log: { trace: {steps: 1, file: " + x + "} }")
                  .starts_with("`x.npy` would be written over, which the run reads as `data.x.file`\n"));
  EXPECT_EQ(code_, 1);
  EXPECT_TRUE(failure(steps + "log: { jsonl: " + x + " }")
                  .starts_with("`x.npy` would be written over, which the run reads as `data.x.file`\n"));
  EXPECT_EQ(folder_.read("x.npy"), before);
  const std::string third = folder_.write("out_3.npy", before), every = folder_.path("out_{step}.npy");
  const std::string reads_third = "data: { x: {file: " + third + "} }\ntrain: { steps: 2 }\n";
  EXPECT_TRUE(failure(reads_third + "output: { w: {file: \"" + every + "\", every: 1} }")
                  .starts_with("`out_{step}.npy` would be written over, which the run reads as `data.x.file`\n"));
  run(1, steps + "output: { w: {file: \"" + every + "\", every: 1} }");
}

// Batches are read by a thread of its own, whose fault it is.
TEST_F(TrainTest, DataThatIsCutShortUnderTheRunIsNamed) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto cut_while_it_runs = [&] {
    std::thread cutter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      std::filesystem::resize_file(folder_.path("x.npy"), 0);
    });
    run(1, "data: { x: {file: x.npy} }\ntrain: { steps: 1000000000 }\nlog: { every: 1000000000 }\n");
    cutter.join();
  };
  EXPECT_EXIT(cut_while_it_runs(), testing::ExitedWithCode(exit_code(Cause::data)),
              "error: cannot read `.*/x.npy` any more");
}

// The loss of a step says nothing of what its update has made.
TEST_F(TrainTest, KeepsNoParametersThatAreNotFinite) {
  const std::string folder = folder_.path("kept"),
                    text =
                        "data: { x: {file: x.npy} }\ntrain: { steps: 1, lr: 1.0e+39 }\ncheckpoint: { dir: " + folder +
                        " }\n";
  const std::string told = failure(text);
  EXPECT_EQ(code_, 3);
  EXPECT_TRUE(told.starts_with("`w` holds -inf after step 1, whose loss was ")) << told;
  EXPECT_FALSE(std::filesystem::exists(folder + "/latest"));
  const std::string out = run(1, text + "log: { nonfinite: warn }");
  EXPECT_NE(out.find("`w` holds -inf after step 1"), std::string::npos) << out;
  EXPECT_TRUE(std::filesystem::exists(folder + "/latest"));
}

// A metric that is not the loss may overflow for a while: it is told once, and stops nothing.
TEST_F(TrainTest, OtherMetricsAreOnlyTold) {
  const ProgramInfo info = FitMean(1).info();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto forbidden = [] {
    ADD_FAILURE() << "stops";
    return std::string();
  };
  FiniteWatch watch(info, Nonfinite::stop), quiet(info, Nonfinite::ignore);
  EXPECT_EQ(watch.step(std::array{1.0, 2.0}, 1, forbidden), "");
  EXPECT_EQ(watch.step(std::array{1.0, infinite}, 2, forbidden), "`distance` is inf at step 2");
  EXPECT_EQ(watch.step(std::array{1.0, infinite}, 3, forbidden), "");
  EXPECT_EQ(quiet.step(std::array{infinite, infinite}, 3, forbidden), "");
  const auto stopped = [&](const std::string& reason) {
    return failure_of([&] { watch.step(std::array{-infinite, 0.0}, 4, [&] { return reason; }); });
  };
  const std::string what = "`loss` is -inf at step 4; after step 3 it was 1\n";
  EXPECT_TRUE(stopped("").starts_with(what + "a smaller `train.lr`")) << stopped("");
  EXPECT_TRUE(stopped("`x` reads nan").starts_with(what + "`x` reads nan; `log.nonfinite")) << stopped("`x` reads nan");
}

TEST_F(TrainTest, BeginsFromParametersOfAFile) {
  const double start = 2;  // the mean of the data
  const NamedArray good{"w", Type::f64, {}, std::as_bytes(std::span(&start, 1))};
  NamedArray other = good, wider = good;
  other.name = "v";
  wider.shape = {1};
  const std::string text = "data: { x: {file: x.npy} }\ntrain: { steps: 1, params: w.safetensors }\n";
  write_safetensors(folder_.path("w.safetensors"), std::span(&good, 1));
  // 0 1 2 3 4 0: the distances to 2 are 2 1 0 1 2 2
  for (const int ranks : {1, 3}) EXPECT_TRUE(run(ranks, text).starts_with("step 1/1  loss 2.333  ")) << ranks;
  write_safetensors(folder_.path("w.safetensors"), std::span(&other, 1));
  EXPECT_EQ(failure(text),
            "`w.safetensors` does not fit the program:\n  `w` is not in the file\n  `v` is in the file, but not in the "
            "program\n`train.names` names a map `ours: theirs`, where a file has other names\n`train.fresh` names "
            "parameters that "
            "begin as the spec says, by paths or patterns");
  write_safetensors(folder_.path("w.safetensors"), std::span(&wider, 1));
  EXPECT_EQ(failure(text), "`w.safetensors` does not fit the program:\n  `w` is [1] in the file and [] in the program");
}

TEST_F(TrainTest, WritesOutputs) {
  const std::string steps = "data: { x: {file: x.npy} }\ntrain: { steps: 5, lr: 0.25 }\n";
  for (const int ranks : {1, 2}) {
    const std::string at = folder_.path("at" + std::to_string(ranks) + "/w_{step}.npy"),
                      last = folder_.path("last.npy");
    run(ranks, fmt::format("{}output: {{ w: {{every: 2, file: '{}'}}, x: {{file: '{}'}} }}", steps, at, last));
    std::vector<double> weights;
    for (const char* step : {"2", "4"}) {
      const Array array = read_npy(folder_.path("at" + std::to_string(ranks) + "/w_" + step + ".npy"));
      EXPECT_TRUE(array.shape.empty());
      weights.push_back(*reinterpret_cast<const float*>(array.data.data()));
    }
    // From 4 half of the way to the mean of every batch: 0 1 2 3 4 0, 1 2 3 4 0 1, 2 3 4 0 1 2, 3 4 0 1 2 3.
    const double second = (4 + 10 / 6.0) / 2 / 2 + 11 / 6.0 / 2;
    EXPECT_NEAR(weights[0], second, 1e-6);
    EXPECT_NEAR(weights[1], second / 4 + 12 / 6.0 / 4 + 13 / 6.0 / 2, 1e-6);
    const Array x = read_npy(last);
    ASSERT_EQ(x.shape, std::vector<int64_t>{6});
    EXPECT_EQ(reinterpret_cast<const float*>(x.data.data())[1], 0);  // 24 25 .. 29 are 4 0 1 2 3 4
    EXPECT_FALSE(std::filesystem::exists(folder_.path("at" + std::to_string(ranks) + "/w_5.npy")));
    // A validation after the same step leaves other numbers in the program's memory: outputs are the step's.
    std::filesystem::remove(last);
    run(ranks, fmt::format("{}validation: {{ x: {{to: 12}} }}\noutput: {{ x: {{file: '{}'}} }}", steps, last));
    EXPECT_EQ(read_npy(last).data, x.data);
  }
  const std::string rarely = run(1, steps + "output: { w: {every: 6, file: '" + folder_.path("rare.npy") + "'} }");
  EXPECT_NE(rarely.find("`output.w` is never written: `every` is 6, and the run ends at step 5. "), std::string::npos)
      << rarely;
  const std::string once = run(1, steps + "output: { w: {every: 5, file: '" + folder_.path("rare.npy") + "'} }");
  EXPECT_EQ(once.find("never written"), std::string::npos) << once;
  EXPECT_EQ(failure(steps + "output: { other: {file: a.npy} }"),
            "`FitMean` has no output `other`\n  --> run.yaml:3:11\n3 | output: { other: {file: a.npy} }\n"
            "  |           ^^^^^ known outputs: w, x");
  EXPECT_EQ(failure(steps + "output: { w: {every: 1} }"),
            "`output.w` names no file\n  --> run.yaml:3:11\n3 | output: { w: {every: 1} }\n"
            "  |           ^ `{file: \"out/w_{step}.npy\"}`");
  EXPECT_EQ(failure(steps + "output: { w: {file: a.npy}, x: {file: a.npy} }"),
            "`w` and `x` would be written to one file\n  --> run.yaml:3:39\n"
            "3 | output: { w: {file: a.npy}, x: {file: a.npy} }\n  |                                       ^^^^^");
  // Told before the first step.
  const std::string below = folder_.path("x.npy") + "/{step}/w.npy";
  EXPECT_EQ(failure(fmt::format("{}log: {{ jsonl: log.jsonl }}\noutput: {{ w: {{file: '{}'}} }}", steps, below)),
            "cannot write `x.npy/{step}/w.npy`: Not a directory");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("log.jsonl")));
}

TEST_F(TrainTest, EndsAtItsTime) {
  const std::string out =
      run(2, "data: { x: {file: x.npy} }\ntrain: { steps: 1000000000, max_time: 1 }\nlog: { every: 1000000 }");
  EXPECT_NE(out.find("train.max_time has ended the run after step "), std::string::npos) << out;
}

TEST_F(TrainTest, RefusesWhatItCannotDo) {
  const std::string data = "data: { x: {file: x.npy} }\n", steps = "train: { steps: 5 }\n";
  EXPECT_EQ(failure(data),
            "the run file does not say how many steps: add `train: { steps: 1000 }`, or `train.steps=1000` on the "
            "command line");
  EXPECT_EQ(code_, 1);
  EXPECT_EQ(failure(steps),
            "input `x` has no source: add `data: { x: {file: PATH} }` to the run file, or `data.x.file=PATH` to the "
            "command line");
  EXPECT_EQ(failure(data + steps + "validation: { steps: 4, x: {} }"),
            "validation has only 3 whole batches of 6\n  --> run.yaml:3:22\n3 | validation: { steps: 4, x: {} }\n"
            "  |                      ^ leave `steps` out to read them all");
  EXPECT_EQ(failure("data: { x: {mix: [{file: x.npy}, {file: x.npy}]} }\n" + steps + "validation: { x: {} }"),
            "a mixture has no end: how much of it is validation?\n  --> run.yaml:1:18\n"
            "1 | data: { x: {mix: [{file: x.npy}, {file: x.npy}]} }\n"
            "  |                  ^ give `steps` beside it");
  EXPECT_EQ(failure(data + steps + "log: { jsonl: " + folder_.path("x.npy/m.jsonl") + " }"),
            "cannot write `x.npy/m.jsonl`: Not a directory");
  EXPECT_EQ(code_, 3);
  run(1, data + steps + "checkpoint: { resume: never }");
}

TEST_F(TrainTest, TheMeshDecidesTheNumberOfRanks) {
  std::string what;
  const int code = launch_threads(2, [&](Rank& rank) {
    FitMean program(3);
    const std::string message = failure_of([&] { prepare(rank, program); });
    if (rank.rank() == 0) what = message;
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(what, "the job has 2 ranks, but `FitMean` is compiled for the 3 of its mesh");
}

TEST_F(TrainTest, DryRun) {
  EXPECT_EQ(run(3, "data: { x: {file: x.npy} }", nullptr, -1, true),
            "dry run of `FitMean`: 3 ranks, 8.0 KiB each: ok\n");
  EXPECT_EQ(run(1, "", nullptr, -1, true), "dry run of `FitMean`: 1 rank, 8.0 KiB each: ok\n");
}

TEST(Info, TellsTheProgramAsTextAndJson) {
  const ProgramInfo info = FitMean(4).info();
  EXPECT_EQ(info_text(info),
            "FitMean from fit.mesh (0123abcd)\n"
            "  layout     data\n"
            "  mesh       { all 4 }: 4 ranks\n"
            "  products   " +
                multiply_name() +
                "\n"
                "  dims       batch 6\n"
                "  samples    batch\n"
                "  metrics    loss, distance\n"
                "  watches    grad_norm, w\n"
                "  rate       0.1\n"
                "  memory     8.0 KiB a rank, 4.0 KiB of them shared\n");
  const auto json = nlohmann::json::parse(info_json(info));
  EXPECT_EQ(json["mesh"]["ranks"], 4);
  EXPECT_EQ(json["dims"]["batch"], 6);
  EXPECT_EQ(json["products"], multiply_name());
  EXPECT_TRUE(json["pipeline"].is_null());
}

TEST(Info, TellsWhatRunsConvolutions) {
  ProgramInfo info = FitMean(4).info();
  EXPECT_TRUE(nlohmann::json::parse(info_json(info))["conv"].is_null());
  info.convolves = true;
  EXPECT_NE(info_text(info).find("\n  conv       " + conv_name() + "\n"), std::string::npos) << info_text(info);
  EXPECT_EQ(nlohmann::json::parse(info_json(info))["conv"], conv_name());
}

TEST(Info, TellsWhatNarrowNumbersBecome) {
  ProgramInfo info = FitMean(4).info();
  info.convolves = info.f16 = true;
  const auto json = nlohmann::json::parse(info_json(info));
  EXPECT_EQ(json["products"], multiply_name() + ", f16 widened");
  EXPECT_EQ(json["conv"], conv_name() + ", f16 widened");
}

TEST(Info, TellsThePipeline) {
  ProgramInfo info = FitMean(4).info();
  info.pipeline = {"all", "1f1b", 8, 4};
  const std::string line = "\n  pipeline   1f1b over all, 8 micro-batches, at most 4 of them in a stage\n";
  EXPECT_NE(info_text(info).find(line), std::string::npos) << info_text(info);
  const auto json = nlohmann::json::parse(info_json(info))["pipeline"];
  EXPECT_EQ(json.dump(), R"({"axis":"all","in_flight":4,"micro_batches":8,"schedule":"1f1b"})");
}

TEST(Log, FormatsTimesAndNumbers) {
  EXPECT_EQ(clock_text(0.4), "0:00");
  EXPECT_EQ(clock_text(65), "1:05");
  EXPECT_EQ(clock_text(11045), "3:04:05");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(-1234), "-1,234");
}

}  // namespace
}  // namespace meshrt
