// The table that `meshc doctor --tune` writes: read back as it was measured, and refused with a place where it is none.
#include "kernels/product_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meshrt/failure.h"
#include "meshrt/tune.h"

namespace meshrt {
namespace {

/// All rows, of which those of f32's `thin` and of bf16's `matrix` are the others'.
std::vector<TunedRow> some_rows() {
  std::vector<TunedRow> rows;
  for (const char* type : {"f32", "f64", "bf16"})
    for (const char* shape : {"with_epilogue", "thin", "small", "matrix"}) rows.push_back({type, shape, "own", 1.5});
  rows[1].chosen = "openblas", rows[1].ratio = 0.5;
  rows[11].chosen = "onednn";
  rows.push_back({"bf16", "in_pairs", "yes", 0});
  return rows;
}

/// What a text is refused with.
std::string refusal(const std::string& text) {
  try {
    parse_product_table(text, "./here.table");
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.cause, Cause::data);
    return failure.what();
  }
  return "";
}

TEST(ProductTable, IsReadAsItWasWritten) {
  const ProductTable table = parse_product_table(text_of(some_rows(), "a machine"), "here");
  EXPECT_EQ(table.at(ProductType::f32, ProductClass::thin), Implementation::openblas);
  EXPECT_EQ(table.at(ProductType::f32, ProductClass::matrix), Implementation::own);
  EXPECT_EQ(table.at(ProductType::f64, ProductClass::thin), Implementation::own);
  EXPECT_EQ(table.at(ProductType::bf16, ProductClass::matrix), Implementation::onednn);
  EXPECT_TRUE(table.has(Implementation::openblas));
  EXPECT_TRUE(table.pairs_bf16);
}

TEST(ProductTable, RanksCompareWhatItSaysAndNotHowItWasFound) {
  std::vector<TunedRow> rows = some_rows();
  const std::string hash = parse_product_table(text_of(rows, "a machine"), "here").hash;
  for (TunedRow& row : rows) row.ratio *= 2;
  EXPECT_EQ(parse_product_table(text_of(rows, "another"), "there").hash, hash);
  rows[0].chosen = "openblas";
  EXPECT_NE(parse_product_table(text_of(rows, "a machine"), "here").hash, hash);
}

TEST(ProductTable, OtherTextsAreRefusedWithTheirPlace) {
  const std::string good = text_of(some_rows(), "a machine");
  EXPECT_EQ(refusal(good), "");
  const std::string way_out = "`meshc doctor --tune ./here.table` writes it anew";
  for (const char* line : {"f32 thin", "f16 thin own", "f32 thick own", "f32 thin theirs", "f32 thin onednn",
                           "bf16 thin openblas", "bf16 in_pairs perhaps"})
    EXPECT_EQ(refusal("# a comment\n" + std::string(line) + "\n" + good),
              "./here.table:2: `" + std::string(line) +
                  "` is no line of a table of products, as `f32 thin own` is, or the second of its kind; " + way_out);
  EXPECT_EQ(
      refusal(good + "f32 thin own\n"),
      "./here.table:16: `f32 thin own` is no line of a table of products, as `f32 thin own` is, or the second of its "
      "kind; " +
          way_out);
  EXPECT_EQ(refusal(""), "./here.table has no line for `f32 with_epilogue`; " + way_out);
  EXPECT_EQ(refusal(good.substr(0, good.find("bf16 in_pairs"))),
            "./here.table has no line for `bf16 in_pairs`; " + way_out);
}

TEST(ProductTable, ATuningHasARowOfEachTypeAndClass) {
  std::vector<std::string> seen;
  const std::vector<TunedRow> rows =
      tune_products([&](const TunedRow& row) { seen.push_back(row.type + " " + row.shape); });
  EXPECT_EQ(seen.size(), 13U);
  EXPECT_EQ(rows.size(), 13U);
  const ProductTable table = parse_product_table(text_of(rows, "this machine"), "here");
  for (const TunedRow& row : rows) {
    if (row.shape == "in_pairs") continue;
    EXPECT_EQ(row.chosen != "own", row.ratio > 0 && row.ratio < 0.97) << row.type << " " << row.shape;
  }
  EXPECT_EQ(table.hash.size(), 8U);
}

}  // namespace
}  // namespace meshrt
