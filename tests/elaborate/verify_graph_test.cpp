// The verifier infers the types of every node again: a pass that gives a node another operand, or another result, is
// found. So are nodes that equal others by the names of their dims alone, which are not merged.
#include "codegen/graph/verify_graph.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "codegen/graph/builder.h"
#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

struct Model {
  Graph graph;
  GraphBuilder build{graph};
  DimId row, col, other;
  ValueId x, y;
  Model() {
    graph.bodies.resize(1);
    row = build.dim("row", 4), col = build.dim("col", 4), other = build.dim("other", 4);
    x = input("x", Type::f32, {row, col});
    y = input("y", Type::f32, {row, other});
  }
  ValueId input(const char* name, Type type, std::vector<DimId> dims) {
    return graph.stored[build.stored(StoredKind::input, name, {type, {}, std::move(dims)}, {}).index].value;
  }
  Node& producer(ValueId value) { return graph.node(graph.value(value).producer); }
  std::string complaint() {
    try {
      verify_graph(graph, "a pass");
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST(VerifyGraph, IsContentWithWhatTheBuilderMakes) {
  Model model;
  const ValueId z = model.build.add(model.x, model.build.rename(model.y, model.other, model.col));
  const DimId dims[] = {model.col};
  model.build.reduce(Reduce::sum, z, dims);
  EXPECT_EQ(model.complaint(), "");
}

TEST(VerifyGraph, FindsAnOperandWithOtherDims) {
  Model model;
  const ValueId z = model.build.add(model.x, model.x);
  model.producer(z).inputs[1] = model.y;
  EXPECT_NE(model.complaint().find("after a pass: %2 is f32[row, col], but add gives f32[row, col, other]"),
            std::string::npos)
      << model.complaint();
}

TEST(VerifyGraph, FindsAnOperandOfAnotherElementType) {
  Model model;
  const ValueId z = model.build.add(model.x, model.x);
  model.producer(z).inputs[1] = model.input("n", Type::i32, {model.row, model.col});
  EXPECT_NE(model.complaint().find("unlike element types"), std::string::npos) << model.complaint();
}

TEST(VerifyGraph, FindsADimThatTheOperandLacks) {
  Model model;
  const DimId dims[] = {model.col};
  const ValueId sum = model.build.reduce(Reduce::sum, model.x, dims);
  model.producer(sum).inputs[0] = model.y;
  EXPECT_NE(model.complaint().find("operand 0 has no dim col"), std::string::npos) << model.complaint();
}

TEST(VerifyGraph, FindsADimTwice) {
  Model model;
  const ValueId z = model.build.rename(model.x, model.col, model.other);
  std::get<RenameOp>(model.producer(z).op).to[0] = model.row;
  model.graph.value(z).type.dims[1] = model.row;
  EXPECT_NE(model.complaint().find("has a dim twice"), std::string::npos) << model.complaint();
}

TEST(VerifyGraph, FindsAResultOfAnotherType) {
  Model model;
  const ValueId z = model.build.map(MapFunction::exp, {model.x});
  model.graph.value(z).type.element = Type::f64;
  EXPECT_NE(model.complaint().find("but exp gives f32[row, col]"), std::string::npos) << model.complaint();
}

TEST(MergeEqual, TellsDimsOfOneNameApart) {
  Model model;
  model.graph.dim(model.other).name = "aside";
  const DimId second = model.build.dim("aside", 4);
  const ValueId a = model.build.rename(model.x, model.row, model.other),
                b = model.build.rename(model.x, model.row, second), c = model.build.rename(model.x, model.row, second);
  const size_t nodes = model.graph.body(model.graph.root()).nodes.size();
  merge_equal(model.graph);
  EXPECT_EQ(model.graph.body(model.graph.root()).nodes.size(), nodes - 1);
  EXPECT_EQ(model.graph.type(a).dims[0], model.other);
  EXPECT_EQ(model.graph.type(b).dims, model.graph.type(c).dims);
}

TEST(MergeEqual, TellsZerosApart) {
  Model model;
  for (const double number : {0.0, -0.0, 0.0}) model.build.literal(number, Type::f32);
  const size_t nodes = model.graph.body(model.graph.root()).nodes.size();
  merge_equal(model.graph);
  EXPECT_EQ(model.graph.body(model.graph.root()).nodes.size(), nodes - 1);
}

}  // namespace
}  // namespace mesh
