// Attention whose keys and values go round the ranks equals that of one rank: forward and gradients, with parts of
// unlike sizes, masks, layers that are computed again, micro-batches and other axes beside.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/program/walk.h"
#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

struct Case {
  const char *model, *layout;
  std::map<std::string, int64_t> mesh;
  size_t rings;  // of a training step's attentions: those whose keys go round
};

CompileRequest request_of(const Case& one) {
  CompileRequest request;
  request.files = {RING};
  request.model = one.model;
  request.layout = one.layout;
  request.mesh = one.mesh;
  request.precision = "f64";
  request.machine_file = NEAR;
  return request;
}

size_t rings(const Program& program) {
  size_t count = 0;
  for_each_step(program.routines[program.step().run].steps, [&](const Step& step) {
    const auto* attention = std::get_if<AttentionStep>(&step.what);
    count += attention && attention->ring;
  });
  return count;
}

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.model << " " << one.layout;
  for (const auto& [axis, size] : one.mesh) *out << " " << axis << "=" << size;
}

class Ring : public ::testing::TestWithParam<Case> {};

TEST_P(Ring, equals_one_rank) {
  const Case& one = GetParam();
  EXPECT_EQ(rings(tests::compiled(request_of(one)).program), one.rings);
  tests::expect_as_one_rank(request_of(one), std::string(one.model) + " " + one.layout);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Ring,
    ::testing::Values(Case{"Causal", "own", {{"ctx", 2}}, 2}, Case{"Causal", "own", {{"ctx", 3}}, 2},
                      Case{"Causal", "own", {{"ctx", 4}}, 2}, Case{"Causal", "own", {{"ctx", 11}}, 2},
                      Case{"Causal", "again", {{"ctx", 2}}, 3}, Case{"Causal", "again", {{"ctx", 3}}, 3},
                      Case{"Causal", "zigzag", {{"ctx", 2}}, 2}, Case{"Causal", "zigzag", {{"ctx", 3}}, 2},
                      Case{"Causal", "zigzag", {{"ctx", 4}}, 2}, Case{"Causal", "rounds", {{"ctx", 3}}, 2},
                      Case{"Cross", "rounds", {{"ctx", 2}}, 4}, Case{"Causal", "samples", {}, 2},
                      Case{"Causal", "parts", {}, 2}, Case{"Causal", "heads", {}, 2}, Case{"Causal", "both", {}, 2},
                      Case{"Cross", "own", {{"ctx", 2}}, 2}, Case{"Cross", "all", {{"ctx", 2}}, 4},
                      Case{"Cross", "all", {{"ctx", 3}}, 4}, Case{"Cross", "all", {{"ctx", 4}}, 4},
                      Case{"Cross", "samples", {}, 4}, Case{"Cross", "heads", {{"model", 2}, {"ctx", 3}}, 4},
                      Case{"Cross", "both", {}, 4}, Case{"Cross", "both", {{"x", 4}, {"y", 2}}, 2}));

}  // namespace
}  // namespace mesh
