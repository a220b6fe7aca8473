// Steps of gradients that are zero but for rounding: equal by the same gradients, and faults are seen all the same.
#include "codegen/interpret/by_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/program/compiled.h"

namespace mesh {
namespace {

using Settings = std::map<std::string, std::string>;

CompileRequest rounded_away(const std::string& layout, const std::string& precision, const Settings& set) {
  CompileRequest request;
  request.files = {ROUNDED_AWAY};
  request.layout = layout;
  request.precision = precision;
  request.set = set;
  request.wanted = {"**", "grad(**)"};
  return request;
}

/// A program beside one rank, before and after what differs is looked at by its gradients.
std::pair<Comparison, Comparison> compared(const std::string& layout, const Settings& of_program,
                                           const Settings& of_reference = {}, const std::string& precision = "f64") {
  const CompileRequest faulty = rounded_away(layout, precision, of_program);
  CompileRequest one = rounded_away(layout, precision, of_reference);
  one.one_rank = one.plain = true;
  CompileRequest given = one;
  given.given_gradients = true;
  const CompareOptions options{.steps = 3};
  const Program program = tests::compiled(faulty).program;
  const Comparison before = compare_programs(program, tests::compiled(one).program, options);
  Comparison after = before;
  allow_by_gradients(after, program, tests::compiled(given).program, options);
  return {before, after};
}

bool is_equal(const Comparison& found, const std::string& name) {
  return std::ranges::find(found.values, name, &ComparedValue::name)->equal;
}

TEST(ByGradients, take_steps_of_roundings_alike) {
  for (const char* layout : {"samples", "heads"}) {
    const auto [before, after] = compared(layout, {});
    EXPECT_FALSE(is_equal(before, "param(bk)")) << layout;
    EXPECT_TRUE(after.equal()) << layout;
    for (const ComparedValue& value : after.values)
      EXPECT_NE(value.by_gradients, is_equal(before, value.name)) << layout << ", " << value.name;
  }
}

TEST(ByGradients, show_a_wrong_update) {
  const auto [before, after] = compared("samples", {{"rate", "0.051"}});
  for (const char* name : {"param(wq)", "param(bk)", "metric loss"}) {
    EXPECT_FALSE(is_equal(before, name)) << name;
    EXPECT_FALSE(is_equal(after, name)) << name;
  }
}

TEST(ByGradients, show_a_wrong_gradient) {
  const auto [before, after] = compared("samples", {{"weight", "1.5"}});
  for (const char* name : {"grad(wq)", "metric loss", "param(bk)"}) {
    EXPECT_FALSE(is_equal(before, name)) << name;
    EXPECT_FALSE(is_equal(after, name)) << name;
  }
}

TEST(ByGradients, show_a_wrong_one_where_all_are_small) {
  const auto [before, after] = compared("samples", {{"weight", "0"}}, {{"weight", "1e-18"}});
  EXPECT_TRUE(is_equal(before, "grad(wq)"));
  EXPECT_FALSE(is_equal(after, "param(wq)"));
}

TEST(ByGradients, allow_for_the_roundings_of_large_ones) {
  const Settings large = {{"weight", "1000"}};
  const auto [before, after] = compared("samples", large, large, "f32");
  EXPECT_FALSE(is_equal(before, "grad(bk)"));
  EXPECT_FALSE(is_equal(before, "param(bk)"));
  EXPECT_TRUE(is_equal(after, "param(bk)"));
}

TEST(ByGradients, allow_for_the_roundings_of_large_ones_in_f64) {
  const Settings large = {{"weight", "1000"}};
  for (const char* layout : {"samples", "heads"}) {
    const auto [before, after] = compared(layout, large, large);
    EXPECT_TRUE(is_equal(before, "grad(bk)")) << layout;
    EXPECT_TRUE(after.equal()) << layout;
    const auto wrong = compared(layout, {{"weight", "1000.00001"}}, large).second;
    EXPECT_FALSE(is_equal(wrong, "grad(wq)")) << layout;
  }
}

}  // namespace
}  // namespace mesh
