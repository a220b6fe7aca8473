// resumed.h: runs of a small program that write checkpoints into folders of a test, stop, and go on.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/driver.h"
#include "meshrt/launch.h"
#include "meshrt/npy.h"
#include "ring_program.h"
#include "test_files.h"

namespace meshrt {

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    std::vector<double> values(22);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
    const std::vector<int64_t> shape = {22};
    write_npy(folder_.path("x.npy"), Type::f64, shape, std::as_bytes(std::span(values)));
  }

  struct Ran {
    int code = 0;
    std::string out, failure;
    std::vector<nlohmann::json> lines;
    std::vector<double> losses;  // by step, of the log
  };
  /// Trains on rows x columns ranks. `name` is that of the folder of checkpoints and of the log.
  Ran run(int rows, int columns, const std::string& name, const std::string& keys, Type real = Type::f64) {
    const std::string text = "data: { x: {file: x.npy} }\ncheckpoint: { dir: '" + folder_.path(name) +
                             "' }\nlog: { every: 1, jsonl: '" + folder_.path(name + ".jsonl") + "' }\n";
    std::vector<std::string> overrides;
    for (size_t begin = 0; begin < keys.size();) {
      const size_t end = std::min(keys.find(' ', begin), keys.size());
      overrides.push_back(keys.substr(begin, end - begin));
      begin = end + 1;
    }
    Ran result;
    std::mutex mutex;
    std::FILE* out = std::fopen(folder_.path("out.txt").c_str(), "w");
    result.code = launch_threads(rows * columns, [&](Rank& rank) {
      try {
        const RunFile run_file = parse_run_file("run.yaml", text, folder_.path(""), overrides);
        RingProgram program(rows, columns, real);
        program.set_optimizer(optimizer_, settings_);
        return train(rank, program, run_file, {out, Color::never});
      } catch (const Failure& failure) {
        const std::lock_guard lock(mutex);
        result.failure = folder_.without_folder(failure.what());
        return exit_code(failure.cause);
      }
    });
    std::fclose(out);
    result.out = folder_.without_folder(folder_.read("out.txt"));
    std::ifstream lines(folder_.path(name + ".jsonl"));
    int64_t first = 0;
    for (std::string line; std::getline(lines, line);) {
      result.lines.push_back(nlohmann::json::parse(line));
      if (!result.lines.back().contains("loss")) continue;
      // Each step once, whatever earlier runs had told: the lines are those of one run.
      const int64_t step = result.lines.back().at("step");
      if (result.losses.empty()) first = step;
      EXPECT_EQ(step, first + static_cast<int64_t>(result.losses.size()));
      result.losses.push_back(result.lines.back().at("loss"));
    }
    return result;
  }
  /// The tensors of two checkpoints are the same, bit by bit, and so are the files.
  void expect_same(const std::string& a, const std::string& b) const {
    const SavedTensors first = SavedTensors::open(folder_.path(a)), second = SavedTensors::open(folder_.path(b));
    ASSERT_EQ(first.tensors().size(), 6U);
    for (const NamedArray& tensor : first.tensors()) {
      ASSERT_NE(second.find(tensor.name), nullptr) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(tensor.data, second.find(tensor.name)->data)) << tensor.name << " of " << b;
    }
    for (const auto& entry : std::filesystem::directory_iterator(first.path())) {
      const std::string name = entry.path().filename();
      if (name == "checkpoint.json") continue;  // it tells the mesh
      EXPECT_EQ(folder_.read(std::filesystem::path(a) / name), folder_.read(std::filesystem::path(b) / name)) << name;
    }
    EXPECT_EQ(damaged_tensors(second), std::vector<std::string>{});
  }

  TestFolder folder_;
  std::string optimizer_;  // of the programs that run, as ProgramInfo has it
  std::vector<std::pair<std::string, double>> settings_;
};

}  // namespace meshrt
