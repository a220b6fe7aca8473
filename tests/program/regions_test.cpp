// Regions: what goes from one of their functions to another, in models with loops, remat and micro-batches.
#include "codegen/gradient/regions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/compile.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/stages.h"
#include "tests/program/compiled.h"
#include "tests/program/golden.h"

namespace mesh {
namespace {

/// The graph of a step and its regions, as the compiler has them after the pass.
struct Cut {
  Graph graph;
  std::vector<Region> regions;
};

CompileRequest request(const std::string& spec, const std::string& layout) {
  CompileRequest result;
  result.files = {spec};
  result.layout = layout;
  return result;
}

Cut cut_regions(CompileRequest request) {
  request.mesh = {{"data", 1}};  // nothing moves: the graph is what it was before it was placed
  const Compiled made = tests::compiled(request);
  return {made.sharded().graph, regions_of(made.sharded().graph)};
}

std::string text_of(CompileRequest request) {
  SourceMap sources;
  DiagnosticSink sink;
  std::string result;
  request.stop_after = "regions";
  request.dump = [&](const std::string&, const std::string& pass, const std::string& text) {
    if (pass == "regions") result = text;
  };
  compile(request, sources, sink);
  return result;
}

const Region& loop_over(const Cut& of, const std::string& dim) {
  const auto found = std::ranges::find_if(of.regions, [&](const Region& one) {
    return one.loop && of.graph.dim(std::get<LoopOp>(of.graph.node(one.loop).op).dim).name == dim;
  });
  if (found == of.regions.end()) throw std::out_of_range("no loop over " + dim);
  return *found;
}
/// The code of a loop's body.
const Region& turn_of(const Cut& of, const std::string& dim) {
  const RegionId loop = loop_over(of, dim).id;
  return *std::ranges::find(of.regions, loop, &Region::around);
}

std::vector<std::string> names(const Cut& of, const std::vector<ValueId>& values) {
  std::vector<std::string> result;
  for (const ValueId value : values) result.push_back(known_as(of.graph, value));
  return result;
}

const std::string gpt = SPECS "/gpt.mesh", layouts = REGIONS;

TEST(Regions, of_gpt) { tests::expect_golden("regions_gpt", text_of(request(gpt, "default"))); }
TEST(Regions, of_gpt_with_layers_computed_again) {
  CompileRequest again = request(gpt, "again");
  again.files.push_back(GPT_AGAIN);
  tests::expect_golden("regions_gpt_again", text_of(again));
}
TEST(Regions, of_a_loop_in_a_loop) { tests::expect_golden("regions_loops", text_of(request(layouts, "plain"))); }
TEST(Regions, of_a_step_by_micro_batches) {
  tests::expect_golden("regions_accumulate", text_of(request(layouts, "parts")));
}

TEST(Regions, remat_keeps_what_a_turn_begins_with) {
  const Cut plain = cut_regions(request(layouts, "plain")), again = cut_regions(request(layouts, "again"));
  const Region &kept = turn_of(plain, "layer"), &recomputed = turn_of(again, "layer");
  EXPECT_GT(kept.stash.size(), recomputed.stash.size());
  EXPECT_EQ(names(again, recomputed.stash), std::vector<std::string>{"layer.h"});
  EXPECT_GT(recomputed.of(Part::recompute).size(), kept.of(Part::recompute).size());
  EXPECT_FALSE(recomputed.recomputed.empty());
}

TEST(Regions, a_turn_gives_the_gradient_of_what_it_got) {
  const Cut all = cut_regions(request(layouts, "plain"));
  const Region& turn = turn_of(all, "layer");
  EXPECT_EQ(turn.around, loop_over(all, "layer").id);
  EXPECT_EQ(loop_over(all, "sweep").around, loop_over(all, "layer").id);
  EXPECT_EQ(turn.in.size(), 1u);
  // `h` goes past it too: what comes back that way is added to what comes through it.
  EXPECT_EQ(names(all, turn.d_out), (std::vector<std::string>{"d_layer.a", "d_layer.h"}));
  EXPECT_EQ(turn.d_in.size(), 1u);
  EXPECT_FALSE(turn.stash_w.empty());
  EXPECT_FALSE(turn.d_parameters.empty());
}

/// What is computed by micro-batches has the regions of what is computed at once.
TEST(Regions, micro_batches_are_the_same_regions) {
  const Cut plain = cut_regions(request(layouts, "plain")), parts = cut_regions(request(layouts, "parts"));
  ASSERT_EQ(plain.regions.size(), parts.regions.size());
  for (size_t i = 0; i < plain.regions.size(); ++i) {
    EXPECT_EQ(bool(plain.regions[i].loop), bool(parts.regions[i].loop)) << i;
    EXPECT_EQ(plain.regions[i].stash.size(), parts.regions[i].stash.size()) << i;
    EXPECT_EQ(plain.regions[i].d_out.size(), parts.regions[i].d_out.size()) << i;
  }
}

/// The graph of a step on several ranks, with its movements.
Graph placed(const std::string& spec, const std::string& layout) {
  SourceMap sources;
  DiagnosticSink sink;
  const std::optional<Compiled> compiled = compile(request(spec, layout), sources, sink);
  if (!compiled) throw std::runtime_error(spec + " does not compile");
  return compiled->sharded().graph;
}

/// A backward loop hands its turns what R reads of it as well as I.
TEST(Regions, what_placement_adds_is_of_the_function_that_reads_it) {
  for (const auto& [spec, layout] : {std::pair{SPECS "/translate.mesh", "megatron"}, {ZOO "/llama.mesh", "zero3"}}) {
    const Graph graph = placed(spec, layout);
    EXPECT_EQ(verify_regions(graph, regions_of(graph)), std::vector<std::string>{}) << spec;
  }
  size_t read_again = 0;  // parameters that R gathers for itself
  const Graph graph = placed(ZOO "/llama.mesh", "zero3");
  for (const Node& node : graph.nodes)
    read_again += std::holds_alternative<ReshardOp>(node.op) && node.part == Part::recompute;
  EXPECT_GT(read_again, 0u);
}

/// A stage begins R with what came into it in F.
TEST(Regions, whatever_r_carries_from_stage_to_stage_f_does) {
  const ShardedGraph step = tests::compiled(request(layouts, "stages")).sharded();
  Graph graph = step.graph;
  const Stages stages(graph, step.layout);
  const std::vector<Region> regions = regions_of(graph);
  const auto divided = [&](const LoopOp& loop) { return stages.is_divided(loop); };
  EXPECT_EQ(verify_regions(graph, regions, divided), std::vector<std::string>{});
  size_t dropped = 0;
  for (const Region& one : regions) {
    LoopOp* loop = one.loop ? std::get_if<LoopOp>(&graph.node(one.loop).op) : nullptr;
    if (!loop || !stages.is_forward(*loop)) continue;
    dropped += loop->carries.size();
    loop->carries.clear();
  }
  ASSERT_EQ(dropped, 1u);
  const std::vector<std::string> told = verify_regions(graph, regions, divided);
  EXPECT_TRUE(std::ranges::any_of(told, [](const std::string& message) {
    return message.find("which F does not hand on") != std::string::npos;
  })) << fmt::format("{}", fmt::join(told, "\n"));
}

class Wrong : public testing::Test {
 protected:
  Cut all = cut_regions(request(layouts, "plain"));
  Region& turn() { return all.regions[turn_of(all, "layer").id.index]; }
  bool tells(const std::string& part) const {
    return std::ranges::any_of(verify_regions(all.graph, all.regions),
                               [&](const std::string& message) { return message.find(part) != std::string::npos; });
  }
};

TEST_F(Wrong, nothing_is_wrong_before) {
  EXPECT_EQ(verify_regions(all.graph, all.regions), std::vector<std::string>{});
}
TEST_F(Wrong, what_is_read_of_others_is_listed) {
  turn().in.clear();
  EXPECT_TRUE(tells("which is not in what it takes of others"));
}
TEST_F(Wrong, what_is_kept_is_listed) {
  turn().stash.clear();
  EXPECT_TRUE(tells("which is not in what is kept for it"));
}
TEST_F(Wrong, what_is_kept_for_w_is_listed) {
  turn().stash_w.clear();
  EXPECT_TRUE(tells("which is not in what is kept for W"));
}
TEST_F(Wrong, who_makes_it_gives_it) {
  for (Region& one : all.regions) one.out.clear();
  EXPECT_TRUE(tells("does not give"));
}
TEST_F(Wrong, lists_have_what_is_made) {
  turn().recomputed.push_back(turn().stash.front());
  EXPECT_TRUE(tells("in its recomputed"));
}
TEST_F(Wrong, forward_reads_no_gradient) {
  for (const NodeId id : turn().of(Part::input_gradient))
    if (!all.graph.node(id).inputs.empty()) all.graph.node(id).part = Part::forward;
  EXPECT_TRUE(tells("of input_gradient"));
}
TEST_F(Wrong, every_gradient_belongs_to_a_region) {
  for (const NodeId id : turn().of(Part::weight_gradient)) all.graph.node(id).region = {};
  EXPECT_TRUE(tells("belongs to no region"));
}
TEST_F(Wrong, forward_reads_of_earlier_regions) {
  const Region& last = all.regions.back();
  for (const NodeId id : all.regions.front().of(Part::forward)) all.graph.node(id).region = last.id;
  for (const NodeId id : last.of(Part::forward)) all.graph.node(id).region = all.regions.front().id;
  EXPECT_TRUE(tells("of a later region"));
}

}  // namespace
}  // namespace mesh
