// What ranks did last, and whether they run the same thing.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "driver/same_job.h"
#include "fit_mean.h"
#include "meshrt/conv.h"
#include "meshrt/driver.h"
#include "meshrt/gemm.h"
#include "meshrt/launch.h"
#include "meshrt/pipeline.h"
#include "report/flight_reader.h"
#include "report/flight_recorder.h"
#include "test_files.h"
#include "transport/call.h"

namespace meshrt {
namespace {

using testing::HasSubstr;

ProgramInfo info_of_two_sites() {
  ProgramInfo info;
  info.name = "Gpt";
  info.sites = {{"gpt.mesh", 52, 1, "loss"}, {"", 0, 0, ""}};
  return info;
}

Call call_of(Kind kind, Site site, int64_t count) {
  Call call;
  call.kind = kind;
  call.type = Type::f32;
  call.site = site;
  call.only.count = count;
  return call;
}

TEST(Flight, KeepsTheLastCalls) {
  const TestFolder folder;
  FlightRecorder recorder(folder.path(""), 1, 2, info_of_two_sites());
  EXPECT_EQ(FlightRecorder::current(), &recorder);
  for (int step = 1; step <= 600; ++step) {
    recorder.step(step);
    FlightRecorder::end(recorder.begin(call_of(Kind::all_reduce, {0, "d_w"}, 12)));
  }
  recorder.begin(call_of(Kind::all_gather, {1, "wq"}, 7));
  const auto flight = read_flight(flight_path(folder.path(""), 1));
  ASSERT_TRUE(flight);
  EXPECT_EQ(flight->rank, 1);
  EXPECT_EQ(flight->step, 600);
  EXPECT_EQ(flight->calls.size(), flight_calls);
  EXPECT_EQ(flight->calls.back().number, 601u);
  EXPECT_EQ(flight->calls.front().number, 601u - flight_calls + 1);
  EXPECT_EQ(flight->calls[flight_calls - 2].text, "all_reduce of 'd_w' (12 x f32, sum) at gpt.mesh:52");
  EXPECT_GE(flight->calls[flight_calls - 2].ended, flight->calls[flight_calls - 2].begun);
  EXPECT_EQ(last_words(*flight), "it was in step 600, in all_gather of 'wq' (7 x f32)");
}

// A rank that has posted what comes later, and waits for an earlier message in an action of its row.
TEST(Flight, NamesTheMessageThatARankWaitsFor) {
  const TestFolder folder;
  FlightRecorder recorder(folder.path(""), 2, 4, info_of_two_sites());
  recorder.step(5);
  const auto message = [&](int micro_batch, bool sends) {
    Call call = call_of(Kind::message, {-1, "act"}, 7);
    (sends ? call.to : call.from) = 0;
    call.message = {micro_batch, 1, sends ? 3 : 1};
    return recorder.begin(call, true);
  };
  recorder.action(PipelineAction{StageWork::forward, 1, 3}.word());
  const auto said = [&] { return last_words(*read_flight(flight_path(folder.path(""), 2))); };
  EXPECT_EQ(said(), "it was in step 5, at 1F3 of its row");
  const FlightCall* const awaited = message(3, false);
  message(4, false);
  EXPECT_EQ(said(),
            "it was in step 5, at 1F3 of its row, after the start of receive of micro-batch 4 of 'act' (7 x f32) from "
            "rank 1");
  recorder.await(awaited);
  EXPECT_EQ(said(), "it was in step 5, at 1F3 of its row, in receive of micro-batch 3 of 'act' (7 x f32) from rank 1");
  recorder.await(nullptr);
  recorder.action(0);
  message(2, true);
  EXPECT_EQ(said(), "it was in step 5, after the start of send of micro-batch 2 of 'act' (7 x f32) to rank 3");
}

TEST(Flight, IsOffWithoutAFolderOrAPlace) {
  const TestFolder folder;
  folder.write("file", "");
  for (const std::string& place : {std::string(), folder.path("file")}) {
    FlightRecorder recorder(place, 0, 1, info_of_two_sites());
    EXPECT_EQ(recorder.begin(call_of(Kind::barrier, {}, 0)), nullptr);
    FlightRecorder::end(nullptr);
    recorder.finish("");
    EXPECT_EQ(recorder.path(), "");
  }
  EXPECT_EQ(FlightRecorder::current(), nullptr);
}

// While a rank runs its file is in memory, and costs the disk of the folder nothing.
TEST(Flight, LiesInMemoryUntilTheEnd) {
  const TestFolder folder;
  const std::string path = flight_path(folder.path(""), 3);
  std::string memory;
  {
    FlightRecorder recorder(folder.path(""), 3, 4, info_of_two_sites());
    memory = std::filesystem::read_symlink(path);
    EXPECT_THAT(memory, testing::MatchesRegex("/dev/shm/meshrt-flight-.*-rank-0003-........"));
    EXPECT_EQ(read_flight(path)->rank, 3);
  }
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  EXPECT_FALSE(std::filesystem::exists(memory));
  EXPECT_EQ(read_flight(path)->rank, 3);
}

// What a rank that is killed with its launcher leaves is read, and taken away, by the postmortem.
TEST(Flight, OutlivesARankThatIsKilled) {
  const TestFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    FlightRecorder recorder(folder.path(""), 0, 1, info_of_two_sites());
    recorder.step(7);
    recorder.begin(call_of(Kind::all_reduce, {0, "d_w"}, 12));
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const std::string path = flight_path(folder.path(""), 0), memory = std::filesystem::read_symlink(path);
  EXPECT_THAT(postmortem(folder.path("")), testing::StartsWith("rank 0 ended in all_reduce of 'd_w'"));
  EXPECT_FALSE(std::filesystem::exists(memory));
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  EXPECT_THAT(postmortem(folder.path("")), testing::StartsWith("rank 0 ended in all_reduce of 'd_w'"));
}

TEST(Flight, OnAnotherHostThePostmortemSaysWhereItIs) {
  const TestFolder folder;
  folder.write("flight/none", "");
  const std::string memory = "/dev/shm/meshrt-flight-elsewhere-rank-0000-abcdef";
  std::filesystem::create_symlink(memory, folder.path("flight/rank-0000"));
  try {
    postmortem(folder.path(""));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("in the memory of their hosts are " + memory));
  }
}

TEST(Flight, RefusesOtherFiles) {
  const TestFolder folder;
  { const FlightRecorder recorder(folder.path(""), 0, 1, info_of_two_sites()); }
  std::string bytes = folder.read("flight/rank-0000");
  EXPECT_TRUE(read_flight(folder.path("flight/rank-0000")));
  EXPECT_FALSE(read_flight(folder.write("short", bytes.substr(0, 100))));
  bytes[0] = 'x';
  EXPECT_FALSE(read_flight(folder.write("foreign", bytes)));
  EXPECT_FALSE(read_flight(folder.path("missing")));
  EXPECT_FALSE(read_flight("/dev/zero"));
  // Numbers that no recorder writes.
  bytes = folder.read("flight/rank-0000");
  for (size_t i = 8; i < bytes.size(); i += 7) bytes[i] = '\xff';
  EXPECT_TRUE(read_flight(folder.write("flight/rank-0000", bytes)));
  EXPECT_NE(postmortem(folder.path("")), "");
}

TEST(Flight, ThePostmortemSaysWhereToLook) {
  const TestFolder folder;
  const auto record = [&](int rank, bool in_call, const std::string& failure) {
    FlightRecorder recorder(folder.path(""), rank, 4, info_of_two_sites());
    recorder.step(12);
    FlightCall* call = recorder.begin(call_of(Kind::all_reduce, {0, "d_w"}, 12));
    if (!in_call) FlightRecorder::end(call);
    if (!failure.empty()) recorder.finish(failure);
  };
  record(0, true, "");
  record(1, false, "");
  record(2, true, "no disk");
  std::vector<Flight> flights;
  for (const int rank : {0, 1, 2}) flights.push_back(*read_flight(flight_path(folder.path(""), rank)));
  EXPECT_EQ(
      whereabouts(flights),
      "rank 1 is in step 12 after all_reduce of 'd_w' (12 x f32, sum) at gpt.mesh:52; ranks 0, 2 are in step 12 in "
      "all_reduce of 'd_w' (12 x f32, sum) at gpt.mesh:52");
  const std::string text = postmortem(folder.path(""));
  EXPECT_THAT(text, testing::StartsWith("rank 2 failed: no disk\n"
                                        "rank 1 ended without a word, outside of any call, while others waited: look "
                                        "there first\n"
                                        "rank 0 ended in all_reduce of 'd_w' (12 x f32, sum) at gpt.mesh:52\n"
                                        "of rank 3 there is no record\n"));
  EXPECT_THAT(text, HasSubstr("\nrank 1 (pid "));
  EXPECT_THAT(text, HasSubstr("  step 12  all_reduce of 'd_w' (12 x f32, sum) at gpt.mesh:52  never done\n"));
  EXPECT_EQ(postmortem(folder.path("flight")), text);
  try {
    postmortem(folder.path("nowhere"));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.cause, Cause::data);
    EXPECT_THAT(failure.what(), HasSubstr("holds no flight recorders"));
  }
}

TEST(Flight, OthersThanThoseOfFurtherRanksStay) {
  const TestFolder folder;
  for (const int rank : {0, 1, 2, 3}) {
    FlightRecorder recorder(folder.path(""), rank, 4, info_of_two_sites());
    recorder.finish("");
  }
  folder.write("flight/rank-notes", "");
  drop_further_flights(folder.path(""), 2);
  for (const int rank : {0, 1, 2, 3})
    EXPECT_EQ(read_flight(flight_path(folder.path(""), rank)).has_value(), rank < 2) << rank;
  EXPECT_EQ(folder.read("flight/rank-notes"), "");
  EXPECT_THAT(postmortem(folder.path("")), testing::Not(HasSubstr("\nrank 2 (pid ")));
}

// A run of two ranks that goes on with one, in the folder that it had.
TEST(Flight, RanksThatARunHasNoMoreAreGone) {
  const TestFolder folder;
  std::vector<uint8_t> values(30, 1);
  folder.write("x.bin", values);
  const auto train_on = [&](int ranks, const std::string& steps) {
    const RunFile run = parse_run_file("run.yaml",
                                       "data: { x: {file: x.bin, type: u8} }\ncheckpoint: { dir: '" + folder.path("c") +
                                           "' }\ntrain: { steps: " + steps + " }\n",
                                       folder.path(""));
    launch_threads(ranks, [&](Rank& rank) {
      FitMean program(ranks);
      DriverOptions options{std::fopen("/dev/null", "w"), Color::never};
      options.run_folder = folder.path("r");
      const int code = train(rank, program, run, options);
      std::fclose(options.out);
      return code;
    });
  };
  train_on(2, "2");
  EXPECT_THAT(postmortem(folder.path("r")), HasSubstr("\nrank 1 (pid "));
  train_on(1, "4");
  EXPECT_THAT(postmortem(folder.path("r")), testing::AllOf(HasSubstr("\nrank 0 (pid "), HasSubstr(", step 4: "),
                                                           testing::Not(HasSubstr("\nrank 1 (pid "))));
}

TEST(Flight, ARunRecordsItsRanks) {
  const TestFolder folder;
  std::vector<uint8_t> values(30, 1);
  folder.write("x.bin", values);
  const RunFile run =
      parse_run_file("run.yaml", "data: { x: {file: x.bin, type: u8} }\ntrain: { steps: 4 }\n", folder.path(""));
  const auto train_until = [&](double blow_up_at) {
    launch_threads(2, [&](Rank& rank) {
      FitMean program(2, blow_up_at);
      DriverOptions options{std::fopen("/dev/null", "w"), Color::never};
      options.run_folder = folder.path("r");
      int code = 3;
      try {
        code = train(rank, program, run, options);
      } catch (const Failure&) {}
      std::fclose(options.out);
      return code;
    });
  };
  train_until(-1);
  EXPECT_THAT(postmortem(folder.path("r")), testing::StartsWith("every rank has ended in order\n"));
  EXPECT_THAT(postmortem(folder.path("r")), HasSubstr("step 4  all_reduce of 'summary' (7 x f64, max)"));
  train_until(3);
  EXPECT_THAT(postmortem(folder.path("r")), testing::StartsWith("rank 0 failed: `loss` is nan at step 3"));
}

TEST(SameJob, KnowsTheVersionOfTheProject) { EXPECT_STREQ(runtime_version, PROJECT_VERSION); }

TEST(SameJob, NamesTheFirstDifference) {
  ProgramInfo info = info_of_two_sites();
  info.spec_hash = "0123";
  info.layout = "data";
  info.mesh = {{"all", 2, 1}};
  info.dims = {{"batch", 6}};
  const auto with = [&](const std::string& keys) { return parse_run_file("run.yaml", keys, ""); };
  const RunFile run = with("train: { steps: 4, seed: 1 }\n");
  const std::string mine = identity_of(info, run);
  EXPECT_EQ(first_difference({mine, mine, mine}), "");
  EXPECT_NE(mine.find("\nproducts: " + multiply_name() + "\n"), std::string::npos);  // ranks of other kernels differ
  EXPECT_EQ(mine.find("convolutions"), std::string::npos);
  ProgramInfo convolving = info;
  convolving.convolves = true;
  EXPECT_NE(identity_of(convolving, run).find("\nconvolutions: " + conv_name() + "\n"), std::string::npos);
  EXPECT_EQ(first_difference({mine, mine, identity_of(info, with("train: { steps: 5, seed: 1 }\n"))}),
            "rank 2 reads another run file: it has `  steps: 5` where rank 0 has `  steps: 4`");
  EXPECT_EQ(first_difference({mine, identity_of(info, with("train: { steps: 4 }\n"))}),
            "rank 1 reads another run file: it has `nothing` where rank 0 has `  seed: 1`");
  info.dims = {{"batch", 8}};
  EXPECT_EQ(first_difference({mine, identity_of(info, run)}),
            "rank 1 runs another program: it has `dim batch: 8` where rank 0 has `dim batch: 6`");
  info.dims = {{"batch", 6}};
  info.sites.pop_back();
  EXPECT_THAT(first_difference({mine, identity_of(info, run)}),
              testing::StartsWith("rank 1 runs another program: it has `schedule of collectives: "));
}

TEST(SameJob, ARankWithAnotherRunFileEndsTheJob) {
  const TestFolder folder;
  folder.write("x.bin", std::vector<uint8_t>(30, 1));
  testing::internal::CaptureStderr();
  const int code = launch_threads(2, [&](Rank& rank) {
    FitMean program(2);
    const RunFile run = parse_run_file(
        "run.yaml", "data: { x: {file: x.bin, type: u8} }\ntrain: { steps: " + std::to_string(4 + rank.rank()) + " }\n",
        folder.path(""));
    return train(rank, program, run, {});
  });
  EXPECT_EQ(code, 3);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("rank 1 reads another run file: it has `  steps: 5` where rank 0 has `  steps: 4`"));
}

}  // namespace
}  // namespace meshrt
