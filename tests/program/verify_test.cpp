// The verifier finds what is broken by hand in programs that are in order.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/program/branches.h"
#include "codegen/program/lower.h"
#include "codegen/program/verify_program.h"
#include "codegen/program/walk.h"
#include "tests/program/compiled.h"
#include "tests/program/messages.h"
#include "tests/program/models.h"

namespace mesh {
namespace {

using tests::expect_message;
using tests::layout;

Program good() {
  const Graph model = tests::residual();
  return lower(
      tests::placed(model, layout(model, {{"data", 2}, {"model", 2}}, {{"batch", "data"}, {"wide", "model"}})));
}

/// The first step of the kind, in any body of the training step.
template <class Kind>
Kind* first(std::vector<Step>& steps, std::vector<Step>** body = nullptr, size_t* at = nullptr) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (auto* found = std::get_if<Kind>(&steps[i].what)) {
      if (body) *body = &steps, *at = i;
      return found;
    }
    for (Steps* inner : bodies(steps[i]))
      if (Kind* found = first<Kind>(*inner, body, at)) return found;
  }
  return nullptr;
}

BufferId find(const Program& program, const std::string& name) {
  for (uint32_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].name == name) return {i};
  throw std::out_of_range("no buffer " + name);
}

/// Exactly the broken program has a message, and it says this.
TEST(Verify, has_nothing_to_say_about_a_good_program) { EXPECT_EQ(verify_program(good()), std::vector<std::string>{}); }

TEST(Verify, buffers_that_live_together_lie_apart) {
  Program program = good();
  program.buffer(find(program, "up_moment2")).offset = program.buffer(find(program, "up_moment1")).offset;
  expect_message(program, "up_moment1 and up_moment2 live at the same time in the same memory");
}

/// So that it sees what is wrong with which ranks the plan of memory tells apart.
TEST(Verify, looks_at_one_rank_after_the_other) {
  const Program program = good();
  EXPECT_EQ(RankClasses(program).count(), 1U);
  const RankClasses single = RankClasses::of_single_ranks(program, 4);
  ASSERT_EQ(single.count(), 4U);
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < single.count(); ++i) ranks.push_back(single.rank(i));
  std::ranges::sort(ranks);
  EXPECT_EQ(ranks, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(RankClasses::of_single_ranks(program, 3).count(), 1U);
}

TEST(Verify, every_buffer_has_a_place) {
  Program program = good();
  program.buffer(find(program, "up")).offset = program.memory.arena;
  expect_message(program, "up lies at");
}

TEST(Verify, a_read_needs_a_write) {
  Program program = good();
  std::vector<Step>* body = nullptr;
  size_t at = 0;
  first<ProductStep>(program.routines[0].steps, &body, &at);
  body->erase(body->begin() + static_cast<std::ptrdiff_t>(at));
  expect_message(program, "before anything writes it");
}

TEST(Verify, collectives_are_those_of_the_layout) {
  Program program = good();
  first<CollectiveStep>(program.routines[0].steps)->axes = {0};
  expect_message(program, "is not the collective that the layout asked for");
}

TEST(Verify, collectives_lead_from_shape_to_shape) {
  Program program = good();
  CollectiveStep* step = first<CollectiveStep>(program.routines[0].steps);
  step->kind = CollectiveKind::all_gather;
  program.sharded.steps[step->step].kind = CollectiveKind::all_gather;
  step->from_dim = 1;
  expect_message(program, "gathers axes that the dim is not split over");
}

TEST(Verify, collectives_work_in_the_arena) {
  Program program = good();
  program.buffer(first<CollectiveStep>(program.routines[0].steps)->to.buffer).space = Space::own;
  expect_message(program, "outside the arena");
}

TEST(Verify, turns_index_their_own_dim) {
  Program program = good();
  first<ProductStep>(program.routines[0].steps)->b.turns = {LoopId{99}};
  expect_message(program, "by a turn that is not its dim's");
}

TEST(Verify, nests_iterate_over_what_they_read) {
  Program program = good();
  std::vector<Step>* body = nullptr;
  size_t at = 0;
  first<ProductStep>(program.routines[0].steps, &body, &at);
  std::get<Nest>((*body)[at - 1].what).passes[0].inner.clear();
  expect_message(program, "does not iterate over dim embed");
}

TEST(Verify, maps_lead_to_what_is_held) {
  for (const bool stores : {false, true}) {
    Program program = good();
    std::vector<Step>* body = nullptr;
    size_t at = 0;
    first<ProductStep>(program.routines[0].steps, &body, &at);
    Pass& pass = std::get<Nest>((*body)[at - 1].what).passes[0];
    IndexMap map{0, pass.inner.empty() ? DimId{} : pass.inner[0].dim, 1, 1, 1, {}};
    Access& access = stores ? pass.stores[0].to : std::get<Scalar::Load>(pass.scalars[0].what).access;
    if (stores) map.outside = 0;  // what is stored must go somewhere
    access.maps.push_back(map);
    expect_message(program, stores ? "that may be missing" : "leads");
  }
}

TEST(Verify, only_nests_walk_by_maps) {
  Program program = good();
  first<ProductStep>(program.routines[0].steps)->b.maps.push_back({0, {}, 0, 1, 1, {}});
  expect_message(program, "is no nest");
}

TEST(Verify, products_know_every_dim) {
  Program program = good();
  first<ProductStep>(program.routines[0].steps)->inner.clear();
  expect_message(program, "has no use for dim embed of a");
}

TEST(Verify, what_finishes_a_product_lies_elsewhere) {
  Program program = good();
  ProductStep* product = first<ProductStep>(program.routines[0].steps);
  product->epilogue.plus = product->c;
  expect_message(program, "has its own result");
}

TEST(Verify, nobody_reads_sums_that_are_left_out) {
  CompileRequest request;
  request.files = {ROUNDED};
  request.model = "Activated";
  request.precision = "mixed";
  Program program = tests::compiled(request).program;
  ASSERT_EQ(verify_program(program), std::vector<std::string>{});
  ProductStep* product = first<ProductStep>(program.routines[0].steps);
  ASSERT_TRUE(product->epilogue.rounded && !product->epilogue.rounded_alone);
  product->epilogue.rounded_alone = true;
  expect_message(program, "before anything writes it");
}

TEST(Verify, metrics_are_scalars) {
  Program program = good();
  program.entries[0].results[0] = find(program, "up");
  expect_message(program, "not a real number");
}

}  // namespace
}  // namespace mesh
