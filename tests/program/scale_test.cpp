// A network without loops, of which each block has steps of its own: twice as many take twice the work to lower.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include "codegen/program/accesses.h"
#include "codegen/program/combine.h"
#include "codegen/program/fuse.h"
#include "codegen/program/lower.h"
#include "codegen/program/memory.h"
#include "codegen/program/memory_curve.h"
#include "codegen/program/one_pass.h"
#include "codegen/program/overlap.h"
#include "tests/program/allocated.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

constexpr auto three_layouts = R"(mesh two { data: 2 }
layout whole on two { batch -> data }
layout parts on two { batch -> data; params { c -> data } }
layout moments on two { batch -> data; optimizer { c -> data } }
)";

/// So many blocks one behind the other, called with what the one before gives and what is written `beside` it.
struct Chain {
  std::string declared, computed;
};
Chain chain_of(int blocks, const std::string& beside = "") {
  Chain chain;
  for (int i = 0; i < blocks; ++i) {
    chain.declared += fmt::format("  param r{} : Block\n", i);
    chain.computed += fmt::format("  y{} = r{}({}{})\n", i, i, i == 0 ? "x" : fmt::format("y{}", i - 1), beside);
  }
  return chain;
}

/// A residual network, on two ranks with all of each parameter, with parts, and with parts of the moments alone. All
/// updates read one number, the norm that gradients are clipped by.
std::string residual_network(int blocks) {
  const Chain chain = chain_of(blocks);
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
{})",
                     chain.declared, chain.computed, blocks - 1, three_layouts);
}

/// Blocks that take rows of a table of their own twice: much is added up into its gradient before its update.
std::string table_network(int blocks) {
  const Chain chain = chain_of(blocks, ", one, other");
  return fmt::format(R"(dim batch = 8, seq = 4, vocab = 50, c = 16, old = c
block Block(x : real[batch, seq, c], one, other : index(vocab)[batch, seq]) -> real[batch, seq, c] {{
  param table : real[vocab, c] = normal(std: 0.1)
  param w : real[old, c] = fan_in[old]
  rows = take[vocab](table, one) * take[vocab](table, other)
  return x + tanh(dot[old]((x + rows)[c as old], w))
}}
model Network {{
  input x : real[batch, seq, c]
  input one, other : index(vocab)[batch, seq]
{}{}  loss = mean[batch, seq, c](y{} ^ 2)
  minimize loss with adamw(lr: 1e-3, clip: 1.0)
}}
{})",
                     chain.declared, chain.computed, blocks - 1, three_layouts);
}

CompileRequest request_of(const std::string& network, const std::string& layout, int ranks_of_host) {
  CompileRequest request;
  request.machine_file = fmt::format("{}/hosts_of_{}.yaml", testing::TempDir(), ranks_of_host);
  std::ofstream(request.machine_file) << fmt::format("name: hosts\nnode: {{ ranks: {} }}\n", ranks_of_host);
  request.files = {testing::TempDir() + "/network.mesh"};
  request.layout = layout;
  std::ofstream(request.files[0]) << network;
  return request;
}

/// Steps whose accesses passes have looked at, by the time that the network is compiled.
double steps_asked_of(const std::string& network, const std::string& layout, int ranks_of_host) {
  const CompileRequest request = request_of(network, layout, ranks_of_host);
  const uint64_t before = steps_asked();
  tests::compiled(request);
  return static_cast<double>(steps_asked() - before);
}

TEST(Scale, twice_the_blocks_take_twice_the_work) {
  for (const auto& network_of : {residual_network, table_network})
    for (const char* layout : {"whole", "parts", "moments"})
      for (const int ranks_of_host : {1, 2}) {
        const double some = steps_asked_of(network_of(15), layout, ranks_of_host);
        const double twice = steps_asked_of(network_of(30), layout, ranks_of_host);
        EXPECT_GT(some, 0) << layout;
        EXPECT_LT(twice, 2.1 * some) << layout << " on hosts of " << ranks_of_host;
      }
}

/// What one pass takes: steps that it looks at, pairs of steps that it compares, bytes of the heap.
using Work = std::array<double, 3>;
Work work_so_far() {
  return {static_cast<double>(steps_asked()), static_cast<double>(conflicts_asked()),
          static_cast<double>(tests::bytes_allocated())};
}

Work work_of(const std::function<void()>& pass) {
  const Work before = work_so_far();
  pass();
  Work work = work_so_far();
  for (size_t i = 0; i < work.size(); ++i) work[i] -= before[i];
  return work;
}

/// Of passes of which a compilation shows too little, by their names.
std::map<std::string, Work> work_of_passes(int blocks, const std::string& layout, int ranks_of_host) {
  const Compiled compiled = tests::compiled(request_of(residual_network(blocks), layout, ranks_of_host));
  Program program = lower(compiled.entries, {.fuse = false});
  fuse(program);
  std::map<std::string, Work> work;
  work["combine_collectives"] = work_of([&] { combine_collectives(program); });
  work["update_in_one_pass"] = work_of([&] { update_in_one_pass(program); });
  work["overlap_collectives"] = work_of([&] { overlap_collectives(program, true); });
  plan_memory(program, true);
  work["memory_curve"] = work_of([&] { memory_curve(program, program.step().run); });
  return work;
}

// Lists grow by leaps, and a call of twice as many values is some steps more: work that grows with the square would be
// four times as much.
TEST(Scale, so_do_single_passes) {
  for (const auto& [layout, ranks_of_host] : {std::pair{"whole", 1}, {"moments", 2}}) {
    const std::map<std::string, Work> some = work_of_passes(15, layout, ranks_of_host);
    for (const auto& [pass, twice] : work_of_passes(30, layout, ranks_of_host))
      for (size_t i = 0; i < twice.size(); ++i)
        EXPECT_LE(twice[i], 2.5 * some.at(pass)[i])
            << pass << " under " << layout << ": number " << i << " of its work";
  }
}

}  // namespace
}  // namespace mesh
