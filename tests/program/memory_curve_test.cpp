// What is in use at each step of a training step, beside what the memory plan says of the peak.
#include "codegen/program/memory_curve.h"

#include <gmock/gmock.h>

#include "codegen/program/largest_values.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

Compiled compiled_under(const std::string& spec, const std::string& layout) {
  CompileRequest request;
  request.files = {std::string(SPECS) + "/" + spec};
  request.layout = layout;
  return tests::compiled(request);
}

class Curves : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Curves, have_the_peak_of_the_plan) {
  const auto& [spec, layout] = GetParam();
  const Compiled compiled = compiled_under(spec, layout);
  const Program& program = compiled.program;
  const MemoryCurve curve = memory_curve(program, program.entries.front().run);
  const MemoryCurve::Point& peak = curve.points.at(curve.peak);
  for (const MemoryCurve::Point& point : curve.points) EXPECT_LE(point.bytes, peak.bytes);
  EXPECT_LE(peak.bytes, program.memory.arena + program.memory.own);
  // The plan counts places in whole lines of the cache, gaps between them as workspace, and what takes over the place
  // of another as that.
  constexpr int64_t line = 64;
  const auto rounding = line * static_cast<int64_t>(curve.at_peak.size());
  int64_t in_use = 0;
  for (const auto& [kind, bytes] : program.memory.by_kind) {
    if (kind != BufferKind::workspace) in_use += bytes;
    if (kind != BufferKind::parameter && kind != BufferKind::optimizer && kind != BufferKind::state) continue;
    const int64_t counted = peak.by_kind.contains(kind) ? peak.by_kind.at(kind) : 0;
    EXPECT_LE(counted, bytes) << name_of(kind);
    EXPECT_LE(bytes, counted + rounding) << name_of(kind);
  }
  EXPECT_LE(in_use, peak.bytes + rounding);
  int64_t held = 0;
  for (const Buffer* buffer : curve.at_peak) held += bytes_of(*buffer);
  EXPECT_EQ(held, peak.bytes);
}

INSTANTIATE_TEST_SUITE_P(Specs, Curves,
                         testing::Values(std::pair{"gpt.mesh", "sequence"}, std::pair{"gpt.mesh", "pipe"},
                                         std::pair{"mixtral.mesh", "dense"}, std::pair{"mlp.mesh", "three"}));

TEST(CurveOfAPipeline, knows_their_loops) {
  const Compiled compiled = compiled_under("gpt.mesh", "pipe");
  const MemoryCurve curve = memory_curve(compiled.program, compiled.program.entries.front().run);
  ASSERT_FALSE(curve.loops.empty());
  const MemoryCurve::Loop& time = curve.loops.front();
  EXPECT_EQ(time.turns, 4);
  for (size_t i = 1; i < curve.loops.size(); ++i) {
    EXPECT_LE(curve.loops[i].first, curve.loops[i].last);
    EXPECT_LT(curve.loops[i].last, curve.points.size());
  }
  EXPECT_LE(time.first, curve.peak);
  EXPECT_GE(time.last, curve.peak);
}

}  // namespace
}  // namespace mesh
