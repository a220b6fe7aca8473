#include "tests/program/as_one_rank.h"

#include <gtest/gtest.h>

#include <span>
#include <tuple>
#include <type_traits>

#include "codegen/program/lower.h"
#include "codegen/program/verify_program.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh::tests {

namespace {

/// What one rank gives, kept: the next question is mostly of another layout of the same spec.
const InterpretResult& of_one_rank(const CompileRequest& request) {
  const auto key = std::tuple(request.files, request.model, request.precision, request.set, request.wanted);
  static std::remove_const_t<decltype(key)> known;
  static InterpretResult result;
  if (key != known) {
    CompileRequest one = request;
    one.one_rank = true;
    one.mesh.clear();
    one.layout.clear();
    result = run(compiled(one).program);
    known = key;
  }
  return result;
}

}  // namespace

void expect_as_one_rank(const CompileRequest& request, const std::string& what) {
  const InterpretResult& expected = of_one_rank(request);
  EXPECT_EQ(expected.wanted.size(), request.wanted.size());
  const Compiled result = compiled(request);
  EXPECT_EQ(verify_program(result.program), std::vector<std::string>{}) << what;
  expect_equal(expected, run(result.program), what + ", fused");
  const Program plain = lower(std::span(result.entries).first(1), {false});
  EXPECT_EQ(verify_program(plain), std::vector<std::string>{}) << what;
  expect_equal(expected, run(plain), what + ", not fused");
}

}  // namespace mesh::tests
