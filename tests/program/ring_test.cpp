// Attention whose keys and values go round the ranks equals that of one rank: forward and gradients, with parts of
// unlike sizes, masks, layers that are computed again, micro-batches and other axes beside.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/program/walk.h"
#include "tests/program/as_one_rank.h"
#include "tests/program/compiled.h"

namespace mesh {
namespace {

struct Rings {
  const char *model, *layout;
  std::map<std::string, int64_t> mesh;
  size_t rings;  // of a training step's attentions: those whose keys go round
};

CompileRequest request_of(const Rings& one) {
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

void PrintTo(const Rings& one, std::ostream* out) {
  *out << one.model << " " << one.layout;
  for (const auto& [axis, size] : one.mesh) *out << " " << axis << "=" << size;
}

class Ring : public ::testing::TestWithParam<Rings> {};

TEST_P(Ring, equals_one_rank) {
  const Rings& one = GetParam();
  EXPECT_EQ(rings(tests::compiled(request_of(one)).program), one.rings);
  tests::expect_as_one_rank(request_of(one), std::string(one.model) + " " + one.layout);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Ring,
    ::testing::Values(Rings{"Causal", "own", {{"ctx", 2}}, 2}, Rings{"Causal", "own", {{"ctx", 3}}, 2},
                      Rings{"Causal", "own", {{"ctx", 4}}, 2}, Rings{"Causal", "own", {{"ctx", 11}}, 2},
                      Rings{"Causal", "again", {{"ctx", 2}}, 3}, Rings{"Causal", "again", {{"ctx", 3}}, 3},
                      Rings{"Causal", "zigzag", {{"ctx", 2}}, 2}, Rings{"Causal", "zigzag", {{"ctx", 3}}, 2},
                      Rings{"Causal", "zigzag", {{"ctx", 4}}, 2}, Rings{"Causal", "rounds", {{"ctx", 3}}, 2},
                      Rings{"Cross", "rounds", {{"ctx", 2}}, 4}, Rings{"Causal", "samples", {}, 2},
                      Rings{"Causal", "parts", {}, 2}, Rings{"Causal", "heads", {}, 2}, Rings{"Causal", "both", {}, 2},
                      Rings{"Cross", "own", {{"ctx", 2}}, 2}, Rings{"Cross", "all", {{"ctx", 2}}, 4},
                      Rings{"Cross", "all", {{"ctx", 3}}, 4}, Rings{"Cross", "all", {{"ctx", 4}}, 4},
                      Rings{"Cross", "samples", {}, 4}, Rings{"Cross", "heads", {{"model", 2}, {"ctx", 3}}, 4},
                      Rings{"Cross", "both", {}, 4}, Rings{"Cross", "both", {{"x", 4}, {"y", 2}}, 2}));

// The first rows see no key.
INSTANTIATE_TEST_SUITE_P(Before, Ring,
                         ::testing::Values(Rings{"Before", "own", {{"ctx", 2}}, 4},
                                           Rings{"Before", "own", {{"ctx", 5}}, 4},
                                           Rings{"Before", "own", {{"ctx", 11}}, 4},
                                           Rings{"Before", "zigzag", {{"ctx", 3}}, 4},
                                           Rings{"Before", "rounds", {{"ctx", 2}}, 4},
                                           Rings{"Before", "samples", {}, 4}, Rings{"Before", "heads", {}, 4}));

INSTANTIATE_TEST_SUITE_P(
    SharedKeys, Ring,
    ::testing::Values(Rings{"Near", "own", {{"ctx", 2}}, 2}, Rings{"Near", "own", {{"ctx", 3}}, 2},
                      Rings{"Near", "own", {{"ctx", 5}}, 2}, Rings{"Near", "own", {{"ctx", 11}}, 2},
                      Rings{"Near", "again", {{"ctx", 4}}, 3}, Rings{"Near", "zigzag", {{"ctx", 2}}, 2},
                      Rings{"Near", "zigzag", {{"ctx", 3}}, 2}, Rings{"Near", "zigzag", {{"ctx", 5}}, 2},
                      Rings{"Near", "rounds", {{"ctx", 4}}, 2}, Rings{"Near", "samples", {}, 2},
                      Rings{"Near", "parts", {}, 2}, Rings{"Near", "shared", {{"model", 2}, {"ctx", 3}}, 2},
                      Rings{"Near", "group", {{"model", 3}, {"ctx", 4}}, 2}, Rings{"Near", "both", {}, 2},
                      Rings{"Shared", "own", {{"ctx", 2}}, 4}, Rings{"Shared", "own", {{"ctx", 4}}, 4},
                      Rings{"Shared", "own", {{"ctx", 11}}, 4}, Rings{"Shared", "zigzag", {{"ctx", 4}}, 4},
                      Rings{"Shared", "heads", {{"model", 2}, {"ctx", 3}}, 4}));

}  // namespace
}  // namespace mesh
