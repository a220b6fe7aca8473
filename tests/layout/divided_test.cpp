// Loops of sums whose turns ranks have among them: what a turn makes varies, nothing of it is sent over their axis,
// sums are completed once. Loops of another kind keep their turns together.
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/layout/predict.h"
#include "codegen/layout/print_sharded.h"
#include "codegen/program/extent.h"
#include "codegen/program/verify_program.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

Compiled compiled(const std::string& spec, const std::string& layout) {
  CompileRequest request;
  request.files = {spec};
  request.layout = layout;
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> result = compile(request, sources, sink);
  if (!result) throw std::runtime_error(spec + " is refused");
  return std::move(*result);
}

/// Whether a movement over the axis stands in a loop of this dim.
bool moves_within(const ShardedGraph& sharded, const std::string& dim, AxisId axis) {
  for (const Body& body : sharded.graph.bodies)
    for (const NodeId id : body.nodes) {
      const auto* moved = std::get_if<ReshardOp>(&sharded.graph.node(id).op);
      if (!moved || !contains(sharded.steps[moved->step].axes, axis)) continue;
      if (sharded.steps[moved->step].kind == CollectiveKind::slice) continue;
      for (NodeId loop = body.owner; loop; loop = sharded.graph.body(sharded.graph.node(loop).body).owner)
        if (sharded.graph.dim(std::get<LoopOp>(sharded.graph.node(loop).op).dim).name == dim) return true;
    }
  return false;
}

TEST(Divided, TurnsOfSumsAreMadeByTheirOwners) {
  for (const char* layout : {"turns", "both", "inner"}) {
    const Compiled made = compiled(DIVIDED, layout);
    const ShardedGraph& sharded = made.sharded();
    const std::string text = print_sharded(sharded);
    EXPECT_FALSE(moves_within(sharded, "expert", 0)) << text;
    EXPECT_NE(text.find("varying over a, by turns of expert"), std::string::npos) << text;
    EXPECT_EQ(sharded.divided.size(), layout == std::string("inner") ? 4 : 2) << text;  // forward and backward
  }
}

TEST(Divided, EachSumIsCompletedOnce) {
  const Compiled made = compiled(DIVIDED, "turns");
  int64_t sums = 0;
  for (const PlannedCollective& one : predict(made.sharded()).collectives) {
    EXPECT_EQ(one.count, 1) << one.tensor;
    sums += one.reason.find("`expert` is split over `a`, so `repeat expert` leaves a partial sum") != std::string::npos;
  }
  EXPECT_GE(sums, 3);  // y, size, d_scale
}

TEST(Divided, ARankHasTheTimeAndTheSlotsOfItsOwnTurns) {
  const Compiled made = compiled(DIVIDED, "turns");
  const ShardedGraph& sharded = made.sharded();
  for (const Body& body : sharded.graph.bodies)
    for (const NodeId id : body.nodes)
      if (const auto* loop = std::get_if<LoopOp>(&sharded.graph.node(id).op);
          loop && sharded.graph.dim(loop->dim).name == "expert") {
        EXPECT_EQ(turns_made(sharded, *loop), 3);  // of five
        for (const LoopOp::Collect& kept : loop->collects)
          EXPECT_EQ(sharded.placement(kept.stacked).dims[0].axes, std::vector<AxisId>{0});
      }
}

TEST(Divided, RanksThatMakeOtherTurnsDoNotMeet) {
  Compiled made = compiled(DIVIDED, "both");
  Program& program = made.program;
  EXPECT_EQ(verify_program(program), std::vector<std::string>{});
  bool changed = false;
  for_each_list(program, [&](Steps& steps) {
    for (Step& step : steps)
      if (auto* loop = std::get_if<ForStep>(&step.what); loop && loop->own && !changed)
        for (Step& inner : loop->body)
          if (auto* moved = std::get_if<CollectiveStep>(&inner.what); moved && !changed) {
            loop->own = DimPlacement{moved->axes, {}, {}};
            changed = true;
          }
  });
  ASSERT_TRUE(changed);
  const std::vector<std::string> messages = verify_program(program);
  EXPECT_TRUE(std::ranges::any_of(messages, [](const std::string& message) {
    return message.find("meets ranks that make other turns of expert") != std::string::npos;
  })) << messages.size();
}

TEST(Divided, LoopsOfAnotherKindKeepTheirTurnsTogether) {
  for (const char* layout : {"recurrent", "read", "claimed", "dealt"})
    EXPECT_TRUE(compiled(UNDIVIDED, layout).sharded().divided.empty()) << layout;
}

}  // namespace
}  // namespace mesh
