// The files that grow while a run goes on: on full and broken disks, and when a run goes on from a checkpoint.
#include "report/run_files.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "system/growing_file.h"
#include "system/text_file.h"
#include "test_files.h"

namespace meshrt {
namespace {

using testing::HasSubstr;

/// As if the disk were full behind the first so many bytes of each file, while it lives.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

class RunFilesTest : public testing::Test {
 protected:
  std::string json_lines(int first, int last) const {
    std::string lines;
    for (int step = first; step <= last; ++step) lines += line(step) + "\n";
    return lines;
  }
  static std::string line(int step) { return "{\"step\": " + std::to_string(step) + ", \"loss\": 2.5}"; }

  RunFiles::Options resumed(int64_t step) const {
    return {.folder = folder_.path("r"), .jsonl = "", .resumed = step, .metrics = {"loss"}, .watched = {}};
  }
  /// What is said on stderr.
  template <class Body>
  std::string told(Body body) const {
    testing::internal::CaptureStderr();
    body();
    return folder_.without_folder(testing::internal::GetCapturedStderr());
  }

  TestFolder folder_;
};

TEST_F(RunFilesTest, AFullDiskCostsTheLinesOfItsTimeAndNoOthers) {
  const std::string path = folder_.path("log");
  const std::string head = std::string(200, 'h') + "\n";  // what is told of a full disk has to fit in stderr's file
  GrowingFile file(path, 0, head);
  file.add("one\n");
  const std::string full = told([&] {
    const FullDisk disk(head.size() + 7);
    file.add("two, of which three bytes fit\n");
    EXPECT_EQ(folder_.read("log"), head + "one\n");
    file.add("three\n");
  });
  EXPECT_EQ(full, "warning: cannot write `log`: File too large; the run goes on\n");
  const std::string again = told([&] {
    file.add("four\n");
    file.add("five\n");
  });
  EXPECT_EQ(again, "`log` is written again; entries lost: 2\n");
  EXPECT_EQ(folder_.read("log"), head + "one\nfour\nfive\n");
}

TEST_F(RunFilesTest, TheHeadOfAFileWaitsForADiskThatIsFull) {
  const std::string path = folder_.path("log");
  const std::string head = std::string(200, 'h') + "\n";
  std::optional<GrowingFile> file;
  const std::string full = told([&] {
    const FullDisk disk(head.size() - 5);
    file.emplace(path, 0, head);
    file->add("one\n");
  });
  EXPECT_EQ(full, "warning: cannot write `log`: File too large; the run goes on\n");
  EXPECT_EQ(told([&] { file->add("two\n"); }), "`log` is written again; entries lost: 1\n");
  EXPECT_EQ(folder_.read("log"), head + "two\n");
}

TEST_F(RunFilesTest, WhatOthersAddStays) {
  const std::string path = folder_.path("log");
  GrowingFile file(path, 0);
  file.add("one\n");
  append_line(path, "of another");
  told([&] {
    const FullDisk disk(std::filesystem::file_size(path) + 1);
    file.add("two\n");
  });
  EXPECT_EQ(folder_.read("log"), "one\nof another\n");
}

TEST_F(RunFilesTest, EventsGoOnWhenTheDiskHasRoomAgain) {
  RunFiles files(resumed(0), "{}");
  const std::string events = "r/events.out.tfevents.0000000000.meshwright";
  const double loss[] = {2.5};
  const auto step = [&](int number) { files.metrics(line(number), number, RunFiles::Kind::train, loss); };
  step(1);
  const std::string one = folder_.read(events);
  told([&] {
    const FullDisk disk(one.size() + 20);
    step(2);
    step(3);
  });
  EXPECT_EQ(folder_.read(events), one);
  EXPECT_EQ(told([&] { step(4); }),
            "`r/events.out.tfevents.0000000000.meshwright` is written again; entries lost: 2\n");
  EXPECT_GT(folder_.read(events).size(), one.size());
  EXPECT_TRUE(folder_.read(events).starts_with(one));
}

// A file that is truncated and written again is lost when power fails in between; here the disk does.
TEST_F(RunFilesTest, WhatStaysIsNotWrittenAgain) {
  const std::string kept = "{\"schema\": 1}\n" + json_lines(1, 3);
  folder_.write("r/metrics.jsonl", kept + json_lines(4, 6) + "{\"step\": 7, \"lo");
  folder_.write("r/log.txt", "one\ntwo\nthr");
  told([&] {
    const FullDisk disk(6);
    RunFiles files(resumed(3), "{\"resumed\": 3}");
    EXPECT_EQ(folder_.read("r/metrics.jsonl"), kept);
    EXPECT_EQ(folder_.read("r/log.txt"), "one\ntwo\n");
  });
  const RunFiles files(resumed(3), "{\"resumed\": 3}");
  EXPECT_EQ(folder_.read("r/metrics.jsonl"), kept + "{\"resumed\": 3}\n");
}

TEST_F(RunFilesTest, WhatACrashHasLeftWithinIsTakenOutOfACopy) {
  const std::string damaged = json_lines(1, 2) + std::string(5, '\0') + "\n{\"step\": \"x\"}\n" + json_lines(9, 9) +
                              json_lines(3, 4) + json_lines(5, 5);
  folder_.write("r/metrics.jsonl", damaged);
  std::filesystem::create_hard_link(folder_.path("r/metrics.jsonl"), folder_.path("before"));
  const RunFiles files(resumed(4), "{}");
  EXPECT_EQ(folder_.read("r/metrics.jsonl"), json_lines(1, 2) + "{\"step\": \"x\"}\n" + json_lines(3, 4) + "{}\n");
  EXPECT_EQ(folder_.read("before"), damaged);
}

TEST_F(RunFilesTest, AFileThatCannotBeReadIsNoEmptyOne) {
  EXPECT_EQ(read_text(folder_.path("none")), "");
  EXPECT_EQ(failure_of([] { read_text("/proc/self/mem"); }), "cannot read `/proc/self/mem`: Input/output error");
  for (const char* name : {"metrics.jsonl", "log.txt"}) {
    std::filesystem::remove_all(folder_.path("r"));
    std::filesystem::create_directories(folder_.path("r"));
    std::filesystem::create_symlink("/proc/self/mem", folder_.path(std::string("r/") + name));
    EXPECT_EQ(folder_.without_folder(failure_of([&] { RunFiles(resumed(3), "{}"); })),
              std::string("cannot read `r/") + name + "`: Input/output error");
  }
}

TEST_F(RunFilesTest, TheCurveGoesOnWithoutReadingItsLinesAgain) {
  folder_.write("r/metrics.jsonl", json_lines(1, 3));
  {
    RunFiles files(resumed(3), "{}");
    std::filesystem::resize_file(folder_.path("r/metrics.jsonl"), 0);
    const double loss[] = {0.5};
    files.metrics(line(4), 4, RunFiles::Kind::train, loss);
    files.metrics("{}", 4, RunFiles::Kind::validation, loss);
  }
  const std::string picture = folder_.read("r/loss.svg");
  const std::string line = picture.substr(picture.find("<polyline"));
  EXPECT_EQ(std::ranges::count(line.substr(0, line.find("fill")), ','), 4);
  EXPECT_THAT(picture, HasSubstr("loss: 0.5"));
  EXPECT_THAT(picture, HasSubstr("validation loss: 0.5"));
}

TEST_F(RunFilesTest, LinesAreFoundWhereverPiecesEnd) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::string(i % 61, 'x') + "\n";
  folder_.write("lines", text + "rest");
  std::string again;
  read_lines(folder_.path("lines"), [&](std::string_view line, bool whole) {
    again += line;
    if (whole) again += "\n";
    else EXPECT_EQ(line, "rest");
  });
  EXPECT_EQ(again, text + "rest");
}

}  // namespace
}  // namespace meshrt
