// Attention over a sequence that ranks have in parts: keys and values go round, and nobody holds all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "codegen/compile.h"
#include "codegen/layout/predict.h"
#include "codegen/program/extent.h"

namespace mesh {
namespace {

Compiled compiled(const std::map<std::string, int64_t>& mesh, const std::map<std::string, std::string>& sizes = {}) {
  CompileRequest request;
  request.files = {GPT};
  request.layout = "ring";
  request.mesh = mesh;
  request.set = sizes;
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> result = compile(request, sources, sink);
  EXPECT_TRUE(result);
  return std::move(*result);
}

/// By phase: how many values go round, and what a rank sends of each; nothing else that has keys is moved.
std::map<std::string, std::pair<int64_t, int64_t>> rings(const Compiled& of) {
  std::map<std::string, std::pair<int64_t, int64_t>> found;
  for (const PlannedCollective& one : predict(of.sharded()).collectives) {
    if (one.kind != CollectiveKind::ring) {
      for (const DimId dim : of.sharded().graph.type(one.moved).dims)
        EXPECT_NE(of.sharded().graph.dim(dim).name, "key") << name_of(one.kind) << " of " << one.tensor;
      continue;
    }
    auto& [count, bytes] = found[one.phase];
    count += one.count;
    EXPECT_TRUE(bytes == 0 || bytes == one.bytes) << one.tensor;
    bytes = one.bytes;
  }
  return found;
}

using Rings = std::map<std::string, std::pair<int64_t, int64_t>>;

// k and v of four layers, and in the backward pass their gradients beside them.
TEST(Ring, sends_all_parts_but_one) {
  const int64_t part = 16 * 32 * 4 * 32 * 4;  // batch, positions, heads, head_dim, bytes
  EXPECT_EQ(rings(compiled({{"data", 1}, {"ctx", 4}})),
            (Rings{{"forward", {8, 3 * part}}, {"backward", {16, 3 * part}}}));
  EXPECT_EQ(rings(compiled({{"data", 2}, {"ctx", 4}})),
            (Rings{{"forward", {8, 3 * part / 2}}, {"backward", {16, 3 * part / 2}}}));
}

TEST(Ring, parts_may_be_uneven) {
  const int64_t row = 16 * 4 * 32 * 4;  // of one position; parts of 32, 33 and 33, of which the least stays
  EXPECT_EQ(rings(compiled({{"data", 1}, {"ctx", 3}}, {{"seq", "98"}})),
            (Rings{{"forward", {8, 66 * row}}, {"backward", {16, 66 * row}}}));
}

TEST(Ring, nobody_holds_more_than_parts_of_the_keys) {
  const Program& program = compiled({{"data", 1}, {"ctx", 4}}).program;
  size_t with_keys = 0;
  for (const Buffer& buffer : program.buffers)
    for (const LocalDim& local : buffer.dims)
      if (program.sharded.graph.dim(local.dim).name == "key") {
        ++with_keys;
        EXPECT_EQ(largest_extent(program, local), 32) << buffer.name;
      }
  EXPECT_GT(with_keys, 0u);
}

// Without queries that are split over the axis there is nothing to meet part by part.
TEST(Ring, is_none_where_a_rank_has_the_sequence) { EXPECT_EQ(rings(compiled({{"data", 4}, {"ctx", 1}})), Rings{}); }

}  // namespace
}  // namespace mesh
