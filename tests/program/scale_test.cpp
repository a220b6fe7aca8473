// Networks without loops, of which each block has steps of its own: twice as many take twice the work to lower.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <functional>
#include <limits>

#include "codegen/program/accesses.h"
#include "codegen/program/combine.h"
#include "codegen/program/memory_curve.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

struct Block {
  const char *text, *others;  // arguments beside x
};

/// With a table that it both multiplies by and takes rows of, whose gradient is a sum of both.
constexpr Block with_tables{R"(
block Block(x : real[batch, c], label : index(class)[batch]) -> real[batch, c] {
  param table : real[class, c] = fan_in[c]
  return tanh(dot[class](dot[c](x, table), table)) + take[class](table, label)
})",
                            ", label"};

constexpr Block residual{R"(
block Block(x : real[batch, c]) -> real[batch, c] {
  param up : linear[c, hid]
  param down : linear[hid, c]
  param norm : layer_norm[c]
  return x + down(gelu(up(norm(x))))
})",
                         ""};

/// A network of blocks, on two ranks with all of each parameter, with parts, and with parts of the moments alone. All
/// updates read one number, the norm that gradients are clipped by.
std::string network_of(const Block& block, int blocks) {
  std::string declared, computed;
  for (int i = 0; i < blocks; ++i) {
    declared += fmt::format("  param r{} : Block\n", i);
    computed += fmt::format("  y{} = r{}({}{})\n", i, i, i == 0 ? "x" : fmt::format("y{}", i - 1), block.others);
  }
  return fmt::format(R"(import std.nn
dim batch = 8, c = 16, class = 10, hid = 64
{}
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
                     block.text, declared, computed, blocks - 1);
}

Program program_of(const Block& block, int blocks, const std::string& layout, int ranks_of_host) {
  CompileRequest request;
  request.machine_file = fmt::format("{}/hosts_of_{}.yaml", testing::TempDir(), ranks_of_host);
  std::ofstream(request.machine_file) << fmt::format("name: hosts\nnode: {{ ranks: {} }}\n", ranks_of_host);
  request.files = {fmt::format("{}/residual_{}.mesh", testing::TempDir(), blocks)};
  request.layout = layout;
  std::ofstream(request.files[0]) << network_of(block, blocks);
  return tests::compiled(request).program;
}

/// Steps whose accesses passes have looked at, by the time that the network is compiled.
double steps_asked_of(const Block& block, int blocks, const std::string& layout, int ranks_of_host) {
  const uint64_t before = steps_asked();
  program_of(block, blocks, layout, ranks_of_host);
  return static_cast<double>(steps_asked() - before);
}

TEST(Scale, twice_the_blocks_take_twice_the_work) {
  for (const Block& block : {residual, with_tables})
    for (const char* layout : {"whole", "parts", "moments"})
      for (const int ranks_of_host : {1, 2}) {
        const double some = steps_asked_of(block, 30, layout, ranks_of_host),
                     twice = steps_asked_of(block, 60, layout, ranks_of_host);
        EXPECT_GT(some, 0) << layout;
        EXPECT_LT(twice, 2.1 * some) << layout << " on hosts of " << ranks_of_host << block.text;
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

/// Of passes that compare what they have asked of steps once: six times as many steps would take 36 times as long.
TEST(Scale, six_times_the_blocks_take_about_six_times_the_time) {
  const Program some = program_of(residual, 30, "whole", 1), more = program_of(residual, 180, "whole", 1);
  const auto times_as_long = [&](const std::function<void(const Program&)>& work) {
    return seconds_of([&] { work(more); }) / seconds_of([&] { work(some); });
  };
  EXPECT_LT(times_as_long([](const Program& program) { memory_curve(program, program.entries.front().run); }), 14);
  EXPECT_LT(times_as_long([](Program program) { combine_collectives(program); }), 14);
}

}  // namespace
}  // namespace mesh
