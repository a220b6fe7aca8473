// Parameters that one stage of a pipeline alone reads: held there, with gradients and moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/program/walk.h"
#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

using testing::IsEmpty;
using tests::compiled;

CompileRequest ends(const std::string& layout, std::map<std::string, int64_t> mesh = {}) {
  CompileRequest request;
  request.files = {OWNED};
  request.precision = "f64";
  request.layout = layout;
  request.mesh = std::move(mesh);
  return request;
}

/// Where a stored tensor lies beside how its dims are split: "pipe 0", "" for everywhere.
std::string place_of(const Program& program, const std::string& path) {
  const auto stored = std::ranges::find(program.sharded.graph.stored, path, &Stored::path);
  if (stored == program.sharded.graph.stored.end()) throw std::out_of_range(path);
  std::string places;
  for (const Where& where : program.sharded.placement(stored->value).at)
    places += (places.empty() ? "" : ", ") + to_string(program.sharded.graph, program.sharded.layout.mesh, where);
  return places;
}

const Buffer& buffer_of(const Program& program, const std::string& path) {
  const auto holds = [&](const Buffer& buffer) { return buffer.stored && buffer.path == path; };
  const auto found = std::ranges::find_if(program.buffers, holds);
  if (found == program.buffers.end()) throw std::out_of_range(path);
  return *found;
}

TEST(OwnedParameters, equal_one_rank) {
  for (const int64_t stages : {1, 2, 3, 4})
    for (const char* layout : {"fill", "turns", "again"})
      tests::expect_as_one_rank(ends(layout, {{"pipe", stages}}), std::string(layout) + std::to_string(stages));
  tests::expect_as_one_rank(ends("vee"), "vee");
  tests::expect_as_one_rank(ends("kept"), "kept");
  tests::expect_as_one_rank(ends("zero"), "zero");
}

TEST(OwnedParameters, lie_at_the_stage_that_reads_them) {
  for (const char* layout : {"turns", "cut"}) {
    const Program program = compiled(ends(layout, {{"pipe", 3}})).program;
    EXPECT_EQ(place_of(program, "table"), "pipe 0") << layout;
    EXPECT_EQ(place_of(program, "head"), "pipe 2") << layout;
    EXPECT_EQ(place_of(program, "gain"), "pipe 2") << "by way of what is made of it once a step";
    EXPECT_EQ(place_of(program, "head.moment2"), "pipe 2");
    EXPECT_EQ(place_of(program, "scale"), "") << "all turns read it";
    EXPECT_EQ(place_of(program, "shift"), "") << "both ends read it";
    EXPECT_EQ(place_of(program, "layer.w"), "");
  }
}

/// Stages that lie in a V have both ends at one coordinate.
TEST(OwnedParameters, lie_where_several_stages_of_a_rank_are) {
  const Program program = compiled(ends("vee")).program;
  EXPECT_EQ(place_of(program, "table"), "pipe 0");
  EXPECT_EQ(place_of(program, "head"), "pipe 0");
  EXPECT_EQ(place_of(program, "shift"), "pipe 0");
}

TEST(OwnedParameters, share_memory_with_those_of_other_stages) {
  const Program apart = compiled(ends("turns")).program;
  const Buffer &table = buffer_of(apart, "table"), &head = buffer_of(apart, "head");
  ASSERT_EQ(table.elements, head.elements);
  EXPECT_EQ(table.offset, head.offset);
  EXPECT_EQ(buffer_of(apart, "table.moment1").offset, buffer_of(apart, "head.moment1").offset);
  const Program kept = compiled(ends("kept")).program;
  EXPECT_NE(buffer_of(kept, "table").offset, buffer_of(kept, "head").offset);
}

/// What is added up at one stage alone is sent to no other.
TEST(OwnedParameters, send_no_gradients_to_other_stages) {
  const Program program = compiled(ends("turns")).program;
  std::vector<std::string> sent;
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      for (const CollectiveStep& one : movements(step)) sent.push_back(program.buffer(one.from.buffer).path);
    });
  EXPECT_EQ(std::ranges::count(sent, "d_shift") + std::ranges::count(sent, "d_scale"), 2)
      << testing::PrintToString(sent);
  for (const char* path : {"d_table", "d_head", "d_gain", "table", "head", "gain"})
    EXPECT_EQ(std::ranges::count(sent, path), 0) << path;
}

}  // namespace
}  // namespace mesh
