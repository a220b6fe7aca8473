// A network without loops, of which each block has steps of its own: twice as many take twice the work to lower.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <functional>
#include <limits>
#include <span>

#include "codegen/program/accesses.h"
#include "codegen/program/combine.h"
#include "codegen/program/memory_curve.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

/// A residual network, on two ranks with all of each parameter, with parts, and with parts of the moments alone. All
/// updates read one number, the norm that gradients are clipped by.
std::string residual_network(int blocks) {
  std::string declared, computed;
  for (int i = 0; i < blocks; ++i) {
    declared += fmt::format("  param r{} : Block\n", i);
    computed += fmt::format("  y{} = r{}({})\n", i, i, i == 0 ? "x" : fmt::format("y{}", i - 1));
  }
  return fmt::format(R"(import std.nn
dim batch = 8, c = 16, class = 10, hid = 64
block Block(x : real[batch, c]) -> real[batch, c] {{
  param up : linear[c, hid]
  param down : linear[hid, c]
  param norm : layer_norm[c]
  return x + down(gelu(up(norm(x))))
}}
model Network {{
  input x : real[batch, c]
  input label : index(class)[batch]
  param head : linear[c, class]
{}{}  loss = mean[batch](cross_entropy[class](head(y{}), label))
  minimize loss with adamw(lr: 1e-3, clip: 1.0)
}}
mesh two {{ data: 2 }}
layout whole on two {{ batch -> data }}
layout parts on two {{ batch -> data; params {{ c -> data }} }}
layout moments on two {{ batch -> data; optimizer {{ c -> data }} }}
)",
                     declared, computed, blocks - 1);
}

Program program_of(int blocks, const std::string& layout, int ranks_of_host) {
  CompileRequest request;
  request.machine_file = fmt::format("{}/hosts_of_{}.yaml", testing::TempDir(), ranks_of_host);
  std::ofstream(request.machine_file) << fmt::format("name: hosts\nnode: {{ ranks: {} }}\n", ranks_of_host);
  request.files = {fmt::format("{}/residual_{}.mesh", testing::TempDir(), blocks)};
  request.layout = layout;
  std::ofstream(request.files[0]) << residual_network(blocks);
  return tests::compiled(request).program;
}

/// Steps whose accesses passes have looked at, by the time that the network is compiled.
double steps_asked_of(int blocks, const std::string& layout, int ranks_of_host) {
  const uint64_t before = steps_asked();
  program_of(blocks, layout, ranks_of_host);
  return static_cast<double>(steps_asked() - before);
}

TEST(Scale, twice_the_blocks_take_twice_the_work) {
  for (const char* layout : {"whole", "parts", "moments"})
    for (const int ranks_of_host : {1, 2}) {
      const double some = steps_asked_of(30, layout, ranks_of_host), twice = steps_asked_of(60, layout, ranks_of_host);
      EXPECT_GT(some, 0) << layout;
      EXPECT_LT(twice, 2.1 * some) << layout << " on hosts of " << ranks_of_host;
    }
}

/// Of this thread, the least of several times.
double seconds_of(const std::function<void()>& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 7; ++i) {
    const std::clock_t begin = std::clock();
    work();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

/// The same with each collective by itself again, and at once.
Program uncombined(Program program) {
  for_each_list(program, [](Steps& steps) {
    Steps apart;
    for (Step& step : steps) {
      const std::span<const CollectiveStep> moved = movements(step);
      if (moved.empty()) apart.push_back(step);
      else if (moved.front().phase == CollectiveStep::Phase::wait) continue;
      for (CollectiveStep one : moved) {
        one.phase = CollectiveStep::Phase::whole;
        apart.push_back(step);
        apart.back().what = std::move(one);
      }
    }
    steps = std::move(apart);
  });
  return program;
}

/// Of passes that compare what they have asked of steps once: six times as many steps would take 36 times as long.
TEST(Scale, six_times_the_blocks_take_about_six_times_the_time) {
  const Program some = program_of(30, "whole", 1), more = program_of(180, "whole", 1);
  const auto times_as_long = [&](const Program& one, const Program& other, const auto& work) {
    return seconds_of([&] { work(other); }) / seconds_of([&] { work(one); });
  };
  const auto curve = [](const Program& program) { memory_curve(program, program.entries.front().run); };
  const auto combine = [](Program program) { combine_collectives(program); };
  EXPECT_LT(times_as_long(some, more, curve), 14);
  EXPECT_LT(times_as_long(uncombined(some), uncombined(more), combine), 14);
}

}  // namespace
}  // namespace mesh
