// A placement in which an axis means two things is found, whatever made it.
#include "codegen/layout/verify_placements.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "tests/layout/perceptron.h"

namespace mesh::testing {
namespace {

/// What is said of the value `h` of [batch, hidden], batch over `rows`, where its placement is changed so.
std::string complaint(const std::function<void(Placement&)>& change) {
  Perceptron model(64, 512, 1024);
  ShardedGraph sharded = place(completed(differentiated(model.graph)),
                               Perceptron::layout({{"rows", 2}, {"columns", 2}}, {{model.batch, {0}}}), Machine{});
  for (uint32_t i = 0; i < sharded.placements.size(); ++i)
    if (sharded.graph.value(ValueId{i}).name == "h") {
      change(sharded.placements[i]);
      break;
    }
  try {
    verify_placements(sharded, "a pass");
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

TEST(VerifyPlacements, IsContentWithWhatPlacingMakes) {
  EXPECT_EQ(complaint([](Placement&) {}), "");
  EXPECT_EQ(complaint([](Placement& h) { h.dims[1].axes = {1}; }), "");
  EXPECT_EQ(complaint([](Placement& h) { h.at = {{1, {0}}}; }), "");
}

TEST(VerifyPlacements, FindsAnAxisOfTwoDims) {
  const std::string said = complaint([](Placement& h) { h.dims[1].axes = {0}; });
  EXPECT_NE(said.find("after a pass: axis `rows` occurs twice in the placement of"), std::string::npos) << said;
  EXPECT_NE(said.find("h, [batch/rows, hidden/rows]"), std::string::npos) << said;
}

TEST(VerifyPlacements, FindsAnAxisTwiceInADim) {
  EXPECT_NE(complaint([](Placement& h) { h.dims[0].axes = {0, 0}; }), "");
}

TEST(VerifyPlacements, FindsAnAxisThatIsSummedOverAndSplitsADim) {
  EXPECT_NE(complaint([](Placement& h) { h.partial = {{0, Reduce::sum}}; }), "");
}

TEST(VerifyPlacements, FindsAPartThatIsNotEverywhereAlongItsAxis) {
  EXPECT_NE(complaint([](Placement& h) { h.at = {{0, {1}}}; }), "");
}

}  // namespace
}  // namespace mesh::testing
