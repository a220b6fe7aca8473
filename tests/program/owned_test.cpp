// Parameters that some stages of a pipeline alone read: held there, with gradients and moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "codegen/layout/predict_pipeline.h"
#include "codegen/program/overlap.h"
#include "codegen/program/verify_program.h"
#include "codegen/program/walk.h"
#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

using testing::HasSubstr;
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
  tests::expect_as_one_rank(ends("shared"), "shared");
  for (const char* closed : {"shut", "pairs"}) tests::expect_as_one_rank(ends(closed), closed);
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
    EXPECT_EQ(place_of(program, "shift"), "pipe 0 or 2") << "both ends read it";
    EXPECT_EQ(place_of(program, "shift.moment1"), "pipe 0 or 2");
    EXPECT_EQ(place_of(program, "layer.w"), "");
  }
  EXPECT_EQ(place_of(compiled(ends("turns")).program, "shift"), "") << "there are no others";
}

/// Terms at two of four stages: an all-reduce of these two, in a branch of theirs, over as many bytes as for two ranks.
TEST(OwnedParameters, add_up_gradients_of_several_stages_among_these) {
  for (const auto& [layout, mesh, among] :
       std::vector<std::tuple<std::string, std::map<std::string, int64_t>, std::string>>{
           {"turns", {{"pipe", 2}}, ""},
           {"turns", {{"pipe", 4}}, "pipe 0 or 3"},
           {"both", {{"data", 2}, {"pipe", 3}}, "pipe 0 or 2"}}) {
    const Program program = compiled(ends(layout, mesh)).program;
    std::vector<const CollectiveStep*> moves;
    for (const Routine& routine : program.routines)
      for_each_step(routine.steps, [&](const Step& step) {
        for (const CollectiveStep& one : movements(step))
          if (program.buffer(one.from.buffer).path == "d_shift" && one.phase != CollectiveStep::Phase::wait)
            moves.push_back(&one);
      });
    ASSERT_EQ(moves.size(), 1U) << layout;
    const CollectiveStep& move = *moves.front();
    EXPECT_EQ(move.kind, CollectiveKind::all_reduce);
    const Where* some = makers(move.kind, move.at);
    EXPECT_EQ(some ? to_string(program.sharded.graph, program.sharded.layout.mesh, *some) : "", among);
    const int64_t ranks =
        2 * program.sharded.layout.mesh.axes.front().size / (mesh.contains("data") ? 1 : mesh.at("pipe"));
    EXPECT_EQ(group_size(program.sharded.layout.mesh, program.sharded.steps[move.step]), ranks);
    EXPECT_EQ(program.sharded.steps[move.step].bytes, 2 * (ranks - 1) * 4 * 8 / ranks) << "of [embed]";
  }
}

/// Who waits for ranks that do not come, or comes without a term, is found.
TEST(OwnedParameters, are_added_up_by_those_that_have_terms) {
  const Program right = compiled(ends("turns", {{"pipe", 4}})).program;
  EXPECT_THAT(verify_program(right), IsEmpty());
  const auto complaints = [&](const std::function<void(Program&, BranchStep&, CollectiveStep&)>& spoil) {
    Program program = right;
    for (Routine& routine : program.routines)
      for_each_step(routine.steps, [&](Step& step) {
        auto* branch = std::get_if<BranchStep>(&step.what);
        if (!branch) return;
        for (Step& inner : branch->body)
          for (CollectiveStep& one : movements(inner))
            if (makers(one.kind, one.at)) spoil(program, *branch, one);
      });
    return testing::PrintToString(verify_program(program));
  };
  EXPECT_THAT(complaints([](Program& program, BranchStep&, CollectiveStep& one) {
                program.sharded.steps[one.step].at = one.at = {};
              }),
              HasSubstr("waits for ranks that do not come to it: it stands in a branch on pipe 0 or 3"));
  EXPECT_THAT(complaints([](Program&, BranchStep& branch, CollectiveStep&) {
                branch.at[0].coordinates = {0, 1, 2, 3};
              }),
              HasSubstr("that have no term of it: it stands in no branch on pipe 0 or 3"));
  EXPECT_THAT(complaints([](Program&, BranchStep&, CollectiveStep& one) {
                one.at.coordinates = {0, 1};
              }),
              HasSubstr("is not the collective that the layout asked for"));
}

/// A stage between the two that have a table holds nothing of it: parameter, two moments, sum of gradients.
TEST(OwnedParameters, take_no_memory_of_stages_between) {
  const Compiled all = compiled(ends("turns", {{"pipe", 4}}));
  const std::vector<PlannedRank> ranks = planned_pipeline(all.program.sharded).value().ranks;
  const int64_t vector = 4 * 8, table = 7 * vector;
  EXPECT_EQ(ranks[1].work.held, ranks[2].work.held);
  EXPECT_EQ(ranks[0].work.held - ranks[1].work.held, 4 * (table + vector)) << "table, shift";
  EXPECT_EQ(ranks[3].work.held - ranks[1].work.held, 4 * (table + 2 * vector) + 8) << "head, gain, shift, the loss";
}

/// The same of the addresses that ranks use: those are the same on all, and what some stages have lies behind.
TEST(OwnedParameters, are_no_memory_of_stages_between) {
  CompileRequest request = ends("turns", {{"pipe", 4}});
  request.set["vocab"] = "1000000";
  const MemoryPlan memory = compiled(request).program.memory;
  ASSERT_EQ(memory.used.size(), 4U);
  const size_t table = 4 * 1'000'000 * sizeof(double), little = 8 * meshrt::huge_page;
  for (const int between : {1, 2}) EXPECT_LE(memory.used[between].bytes(), little) << between;
  for (const int end : {0, 3}) EXPECT_GE(memory.used[end].bytes(), 4 * table) << "parameter, moments, gradient";
  EXPECT_LE(memory.used[0].bytes(), 4 * table + little);
  EXPECT_EQ(memory.peak(), static_cast<int64_t>(memory.used[3].bytes())) << "which has the logits besides";
}

/// Of terms that no rank has two of nothing is added: each is made where the sum lies.
TEST(OwnedParameters, have_gradients_whose_terms_lie_where_their_sum_does) {
  for (const int64_t stages : {2, 3, 4}) {
    const Program program = compiled(ends("turns", {{"pipe", stages}})).program;
    EXPECT_EQ(std::ranges::count(program.buffers, "d_shift", &Buffer::name), 1) << stages;
    for (const Routine& routine : program.routines)
      for_each_step(routine.steps, [&](const Step& step) {
        EXPECT_FALSE(std::holds_alternative<FillStep>(step.what)) << "what is no term";
      });
  }
}

/// What the turns of one of two loops share its stages hold.
TEST(OwnedParameters, lie_at_the_stages_of_a_loop_whose_turns_share_them) {
  for (const auto& [layout, shared, in_both] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"turns", "pipe 0 or 1", ""},
                                                                      {"half", "pipe 0 or 1", ""},
                                                                      {"again", "pipe 0 or 1", ""},
                                                                      {"cut", "pipe 0 or 1", ""},
                                                                      {"alone", "pipe 1 or 2", "pipe 1 or 2 or 3"}}) {
    CompileRequest request = ends(layout, {{"data", 2}, {"pipe", layout == "alone" ? 5 : 4}});
    request.files = {SHARED};
    const Program program = compiled(request).program;
    EXPECT_EQ(place_of(program, "mix"), shared) << layout;
    EXPECT_EQ(place_of(program, "mix.moment2"), shared) << layout;
    EXPECT_EQ(place_of(program, "scale"), in_both) << layout;
    tests::expect_as_one_rank(request, layout);
  }
}

TEST(OwnedParameters, of_several_stages_count_once_in_the_norm) {
  for (const int64_t stages : {3, 4}) {
    tests::expect_as_one_rank(ends("both", {{"data", 2}, {"pipe", stages}}), "both");
    tests::expect_as_one_rank(ends("split", {{"data", 2}, {"pipe", stages}}), "split");
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

/// What the owners do to update theirs stands together, and needs no place for what is made on the way.
TEST(OwnedParameters, are_updated_in_place) {
  const Program program = compiled(ends("turns", {{"pipe", 4}})).program;
  for (const Buffer& buffer : program.buffers) {
    const bool made = buffer.kind == BufferKind::workspace && !buffer.view_of && buffer.offset >= 0;
    EXPECT_FALSE(made && buffer.name.starts_with("next_") && buffer.elements >= 4) << buffer.name;
  }
}

/// What is added up at one stage alone is sent to no other.
TEST(OwnedParameters, send_no_gradients_to_other_stages) {
  const Program program = compiled(ends("turns")).program;
  std::vector<std::string> sent;
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      for (const CollectiveStep& one : movements(step))
        if (one.phase != CollectiveStep::Phase::wait) sent.push_back(program.buffer(one.from.buffer).path);
    });
  EXPECT_EQ(std::ranges::count(sent, "d_shift"), 1) << "once for both ends";
  EXPECT_EQ(std::ranges::count(sent, "d_scale"), 1) << testing::PrintToString(sent);
  for (const char* path : {"d_table", "d_head", "d_gain", "table", "head", "gain"})
    EXPECT_EQ(std::ranges::count(sent, path), 0) << path;
}

}  // namespace
}  // namespace mesh
