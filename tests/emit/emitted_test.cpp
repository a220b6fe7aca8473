// Emitted programs against the interpreter: the same tensors and metrics, bit for bit, over several steps and an
// evaluation, on ranks that are threads.
#include <gtest/gtest.h>

#include "codegen/interpret/interpreted_program.h"
#include "tests/emit/cases.h"
#include "tests/emit/emitted_cases.h"
#include "tests/emit/record.h"

namespace mesh::tests {
namespace {

class Emitted : public testing::TestWithParam<Case> {};

TEST_P(Emitted, equals_the_interpreter_bit_for_bit) {
  SourceMap sources;
  const Compiled compiled = tests::compiled(GetParam(), sources);
  const int ranks = static_cast<int>(compiled.sharded().layout.mesh.ranks());
  const auto interpreted =
      record([&] { return std::make_unique<InterpretedProgram>(compiled.program, &sources); }, ranks);
  const auto emitted = record(emitted_cases().at(GetParam().name), ranks);
  for (const Record& one : interpreted) ASSERT_GT(one.size(), 3u);
  for (const Output& output : compiled.sharded().graph.outputs)
    EXPECT_TRUE(interpreted[0].contains("step 1 " + output.name)) << output.name;
  EXPECT_EQ(differences(interpreted, emitted), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(All, Emitted, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace mesh::tests
