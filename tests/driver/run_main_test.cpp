// The main function of a program, from the outside: what it prints and its exit code.
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "meshrt/instructions.h"
#include "test_files.h"

namespace meshrt {
namespace {

class RunMainTest : public testing::Test {
 protected:
  RunMainTest() {
    std::string values;
    for (int i = 0; i < 30; ++i) values += bytes_of<uint8_t>({static_cast<uint8_t>(i % 5)});
    folder_.write("x.bin", values);
    folder_.write("run.yaml", "data: { x: {file: x.bin, type: u8} }\ntrain: { steps: 4 }\nlog: { every: 2 }\n");
  }

  struct Result {
    int code;
    std::string out, error;
  };
  /// Runs the program in this test's folder.
  Result run(const std::string& arguments) const {
    // `arguments` may go on with other commands of the shell.
    const std::string command =
        "cd " + folder_.path("") + " && { " + FIT_MEAN_PROGRAM + " " + arguments + "; } >out.txt 2>error.txt";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), folder_.read("out.txt"), folder_.without_folder(folder_.read("error.txt"))};
  }

  TestFolder folder_;
};

TEST_F(RunMainTest, TrainsWithProcessesAndWithThreads) {
  for (const char* how : {"-n 2 run.yaml", "--threads run.yaml", "-n 2 --threads run.yaml"}) {
    const Result result = run(how);
    EXPECT_EQ(result.code, 0) << how << result.error;
    EXPECT_TRUE(result.out.starts_with("step 2/4  loss 4.696  distance 2.167  ")) << how << result.out;
    EXPECT_NE(result.out.find("done: 4 steps"), std::string::npos) << how << result.out;
    EXPECT_EQ(result.error, "") << how;
  }
}

TEST(Instructions, ThoseOfThisCpuAreToldFromOthers) {
  EXPECT_EQ(missing_instructions(compiled_for), "");  // or this would not run
  EXPECT_EQ(missing_instructions(" a word that is none"), "");
#ifdef __x86_64__
  EXPECT_NE(missing_instructions(" xop avx512vp2intersect"), "");  // no CPU has both
#elif defined(__aarch64__)
  EXPECT_TRUE((cpu_instructions() + " ").starts_with(" simd "));
#endif
}

TEST_F(RunMainTest, ErrorsHaveAColorWhereItIsWanted) {
  for (const auto& [how, beginning] : {std::pair("evaluate --color=always --params none", "\x1b[1;31merror\x1b[0m: "),
                                       std::pair("evaluate --params none", "error: ")}) {
    const Result result = run(std::string(how) + " run.yaml");
    EXPECT_NE(result.code, 0);
    EXPECT_TRUE(result.error.starts_with(beginning)) << result.error;
  }
  const Result forced = run("--no-such-option; CLICOLOR_FORCE=1 " FIT_MEAN_PROGRAM " --no-such-option");
  EXPECT_TRUE(forced.error.starts_with("error: unknown option")) << forced.error;
  EXPECT_NE(forced.error.find("\x1b[1;31merror\x1b[0m: unknown option"), std::string::npos) << forced.error;
}

TEST_F(RunMainTest, OverridesReachTheRanks) {
  const Result result = run("-n 2 run.yaml train.steps=6 log.every=5");
  EXPECT_TRUE(result.out.starts_with("step 5/6  loss ")) << result.out;
}

TEST_F(RunMainTest, FindsTheRunFileBesideTheSpec) {
  EXPECT_TRUE(run("-n 2").error.starts_with("error: the run file does not say how many steps: "));
  folder_.write("fit.yaml", folder_.read("run.yaml"));
  EXPECT_EQ(run("-n 2").code, 0);
}

TEST_F(RunMainTest, AnswersHelpInfoAndDryRun) {
  EXPECT_TRUE(run("--help").out.starts_with(
      "usage: fit_mean_program [evaluate | predict | generate | score] [RUN.yaml] [key=value...] [options]\n"));
  EXPECT_TRUE(run("--info").out.starts_with("FitMean from fit.mesh (0123abcd)\n"));
  EXPECT_EQ(nlohmann::json::parse(run("--info --json").out)["name"], "FitMean");
  EXPECT_EQ(run("--dry-run -n 2 run.yaml").out, "dry run of `FitMean`: 2 ranks, 8.0 KiB each: ok\n");
}

TEST_F(RunMainTest, EvaluatesWhatARunHasLeft) {
  const std::string keys = " run.yaml checkpoint.dir=c log.jsonl=log.jsonl validation.x.to=17";
  ASSERT_EQ(run("-n 2" + keys).code, 0);
  const std::string log = folder_.read("log.jsonl");
  const size_t last = log.rfind('\n', log.size() - 2) + 1;
  const auto validation = nlohmann::json::parse(log.substr(last))["validation"];
  ASSERT_EQ(validation.size(), 2u) << log;
  for (const char* how : {"-n 2", "--threads", "-n 2 --params c/step-4"}) {
    const Result result = run("evaluate --json " + std::string(how) + keys);
    ASSERT_EQ(result.code, 0) << how << result.error;
    const auto object = nlohmann::json::parse(result.out);
    EXPECT_EQ(object["metrics"], validation) << how;  // bit by bit
    EXPECT_EQ(object["samples"], 17) << how;
    EXPECT_EQ(object["step"], 4) << how;
  }
  EXPECT_EQ(folder_.read("log.jsonl"), log);  // nothing was trained or logged
  const Result text = run("evaluate -n 2 run.yaml --params c");
  EXPECT_NE(text.out.find("30 samples, 5 batches of `data` in "), std::string::npos) << text.out << text.error;
  EXPECT_NE(text.out.find(", with the parameters of c/step-4\n"), std::string::npos) << text.out;
}

TEST_F(RunMainTest, EvaluationsSayWhatTheyLack) {
  const struct {
    const char* arguments;
    int code;
    const char* error;
  } cases[] = {
      {"evaluate -n 2 run.yaml", 2,
       ": which parameters? `--params CHECKPOINT`, a safetensors file, or `checkpoint.dir` of the run file\n"},
      {"evaluate -n 2 run.yaml checkpoint.dir=none", 1,
       ": `none` holds no checkpoint yet\n  --> command line\n1 | checkpoint.dir=none\n  |                ^^^^ "
       "`--params` names other parameters\n"},
      {"predict -n 2 run.yaml --params none --out o", 2,
       "error: `FitMean` predicts nothing: `meshc build fit.mesh --predict NAME` compiles a program that does\n"},
      {"evaluate -n 2 run.yaml --params none", 1, ": cannot read `none`: No such file or directory\n"},
      {"evaluate -n 2 run.yaml validation.x.steps=3", 1, "error: unknown key `steps` in `validation.x`\n"},
      {"evaluate -n 2 run.yaml validation.steps=9 checkpoint.dir=none", 1,
       ": validation has only 5 whole batches of 6\n"},
      {"evaluate -n 2 run.yaml data.x.file=none.bin checkpoint.dir=none", 1,
       ": cannot read `none.bin`: No such file or directory\n  --> command line\n"},
  };
  for (const auto& [arguments, code, error] : cases) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.error;
    EXPECT_NE(result.error.find(error), std::string::npos) << arguments << "\n" << result.error;
  }
}

// What cannot be printed ends no run, and does not change how it ends.
TEST_F(RunMainTest, FullDisksBehindStdoutAndStderrAreNoFailure) {
  for (const char* how : {"-n 2 run.yaml", "--threads run.yaml"})
    EXPECT_EQ(run(std::string(how) + " >/dev/full 2>&1").code, 0) << how;
  for (const char* how : {"--help", "--info"})  // whose text is all that was asked for
    EXPECT_EQ(run(std::string(how) + " >/dev/full").code, 3) << how;
  EXPECT_EQ(run("-n 3 run.yaml >/dev/full 2>&1").code, 2);
  for (const char* how : {"-n 2", "--threads"})
    EXPECT_EQ(run(std::string(how) + " run.yaml train.lr=1e30 >/dev/full 2>&1").code, 3) << how;
  // A line that is longer than the buffer of stdout is written at once.
  std::string far, mix;
  for (int i = 0; i < 10; ++i) far += std::string(150, 'f') + "/";
  folder_.write(far + "x.bin", folder_.read("x.bin"));
  for (int i = 0; i < 4; ++i) mix += "{file: " + far + "x.bin, weight: 1}, ";
  folder_.write("long.yaml", "data: { x: {mix: [" + mix + "], type: u8} }\ntrain: { steps: 4 }\n");
  EXPECT_GT(run("-n 2 long.yaml").out.find('\n'), 5000u);
  EXPECT_EQ(run("-n 2 long.yaml >/dev/full 2>&1").code, 0);
}

// A cluster's warning goes to the launcher: all ranks end after the same step, and the same command goes on.
TEST_F(RunMainTest, ASignalToTheLauncherEndsTheRanksInOrder) {
  const std::string keys =
      "-n 2 run.yaml train.steps=100000000 log.every=100000000 checkpoint.dir=c checkpoint.every=100";
  const auto step = [&] {
    std::error_code ignored;
    return std::filesystem::read_symlink(folder_.path("c/latest"), ignored).string();
  };
  const auto interrupted = [&](const std::string& signal) {
    return run(keys + " & job=$!; for i in $(seq 1000); do [ \"$(readlink c/latest)\" != '" + step() +
               "' ] && break; sleep 0.01; done; kill -" + signal + " $job; wait $job");
  };
  const Result first = interrupted("TERM");
  EXPECT_EQ(first.code, 75) << first.error;
  EXPECT_EQ(first.error, "");
  EXPECT_TRUE(std::filesystem::exists(folder_.path("c/latest/checkpoint.json")));
  const std::string before = step();
  const Result second = interrupted("USR1");
  EXPECT_EQ(second.code, 75) << second.error;
  EXPECT_TRUE(second.out.starts_with("goes on from c/" + before + " after step ")) << second.out;
  EXPECT_NE(step(), before);
}

TEST_F(RunMainTest, MistakesEndItWithTheirCode) {
  const struct {
    const char* arguments;
    int code;
    const char* error;
  } cases[] = {
      {"--unknown", 2, "error: unknown option `--unknown`: "},
      {"run.yaml", 2,
       "error: `FitMean` is compiled for 2 ranks: start it with `" FIT_MEAN_PROGRAM
       " -n 2`, or with `meshrun -n 2 " FIT_MEAN_PROGRAM "`\n"},
      {"-n 3 run.yaml", 2, "error: -n 3, but `FitMean` is compiled for 2 ranks: use -n 2\n"},
      {"-n 2 none.yaml", 1, "error: cannot read `none.yaml`: No such file or directory\n"},
      {"-n 2 run.yaml train.stepz=1", 1,
       "error: unknown key `stepz` in `train`\n  --> command line\n1 | train.stepz=1\n  |       ^^^^^ did you mean "
       "`steps`?\n"},
      {"-n 2 run.yaml log.watch=[v]", 1,
       "error: `FitMean` is not compiled to watch `v`: `meshc build fit.mesh RUN.yaml` compiles a program for what its "
       "run file watches\n  --> command line\n1 | log.watch=[v]\n  |            ^ did you mean `w`?\n"},
      {"-n 2 run.yaml data.x.type=u16 data.x.window=y", 1, ": `x` [batch 6] cannot be read by windows along `y`\n"},
      {"-n 2 run.yaml train.lr=1e30", 3, ": `loss` is inf at step "},
  };
  for (const auto& [arguments, code, error] : cases) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, code) << arguments;
    // What only a rank can find is told with the rank in front.
    const size_t at = result.error.find(error);
    EXPECT_TRUE(at == 0 || (error[0] == ':' && at != std::string::npos)) << arguments << "\n" << result.error;
    EXPECT_EQ(result.error.find("error: ", 1), std::string::npos) << "told twice\n" << result.error;
  }
}

}  // namespace
}  // namespace meshrt
