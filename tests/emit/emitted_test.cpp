// Emitted programs against the interpreter: the same tensors and metrics, bit for bit, over several steps and an
// evaluation, on ranks that are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "codegen/interpret/interpreted_program.h"
#include "codegen/program/verify_program.h"
#include "tests/emit/cases.h"
#include "tests/emit/emitted_cases.h"
#include "tests/emit/record.h"

namespace mesh::tests {
namespace {

class Emitted : public testing::TestWithParam<Case> {};

/// And nothing reads memory that no step has written: there is NaN in that of the emitted program.
TEST_P(Emitted, equals_the_interpreter_bit_for_bit) {
  SourceMap sources;
  const Compiled compiled = tests::compiled(GetParam(), sources);
  const int ranks = static_cast<int>(compiled.sharded().layout.mesh.ranks());
  const auto interpreted =
      record([&] { return std::make_unique<InterpretedProgram>(compiled.program, &sources); }, ranks);
  const auto emitted = record(emitted_cases().at(GetParam().name), ranks, std::byte{0xff});
  for (const Record& one : interpreted) ASSERT_GT(one.size(), 3u);
  for (const Output& output : compiled.sharded().graph.outputs)
    EXPECT_TRUE(interpreted[0].contains("step 1 " + output.name)) << output.name;
  EXPECT_EQ(differences(interpreted, emitted), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(All, Emitted, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name; });

class Changed : public testing::TestWithParam<Case> {};

/// A program that tests have changed is in order, and leaves what it left before.
TEST_P(Changed, equals_what_it_was) {
  Case plain = GetParam();
  plain.change = nullptr;
  SourceMap sources, plain_sources;
  const Compiled changed = tests::compiled(GetParam(), sources), before = tests::compiled(plain, plain_sources);
  EXPECT_EQ(verify_program(changed.program), std::vector<std::string>{});
  const int ranks = static_cast<int>(changed.sharded().layout.mesh.ranks());
  const auto by = [&](const Compiled& one, const SourceMap& of) {
    return record([&] { return std::make_unique<InterpretedProgram>(one.program, &of); }, ranks);
  };
  EXPECT_EQ(differences(by(before, plain_sources), by(changed, sources)), std::vector<std::string>{});
}

std::vector<Case> changed_cases() {
  std::vector<Case> changed;
  std::ranges::copy_if(cases(), std::back_inserter(changed), [](const Case& one) { return one.change != nullptr; });
  return changed;
}
INSTANTIATE_TEST_SUITE_P(All, Changed, testing::ValuesIn(changed_cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace mesh::tests
