#include "tests/program/as_one_rank.h"

#include <gtest/gtest.h>

#include <span>

#include "codegen/program/lower.h"
#include "codegen/program/verify_program.h"
#include "tests/program/compiled.h"
#include "tests/program/numbers.h"

namespace mesh::tests {

void expect_as_one_rank(const CompileRequest& request, const std::string& what) {
  CompileRequest one = request;
  one.one_rank = true;
  one.mesh.clear();
  one.layout.clear();
  const InterpretResult expected = run(compiled(one).program);
  EXPECT_EQ(expected.wanted.size(), request.wanted.size());
  const Compiled result = compiled(request);
  EXPECT_EQ(verify_program(result.program), std::vector<std::string>{}) << what;
  expect_equal(expected, run(result.program), what + ", fused");
  const Program plain = lower(std::span(result.entries).first(1), {false});
  EXPECT_EQ(verify_program(plain), std::vector<std::string>{}) << what;
  expect_equal(expected, run(plain), what + ", not fused");
}

}  // namespace mesh::tests
