// Steps that go along a dim only as far as a number says: what stands behind is not read, and keeps what it is.
#include "codegen/program/bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "codegen/program/verify_steps.h"
#include "tests/interpret/hand_made.h"

namespace mesh::tests {
namespace {

using F = MapFunction;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t keys = 21, width = 40;

/// twice[key, embed] = 2 x, sums[embed] = sum over key of weight * x, and the same by rows of a nest; of keys up to
/// `last`.
struct UpTo {
  HandMade made;
  LocalDim key, embed;
  BufferId last, weight, x, twice, product, total;

  explicit UpTo(int64_t ranks) : made({{"a", ranks}}) {
    key = split(made.dim("key", keys), {0});
    embed = whole(made.dim("embed", width));
    last = made.buffer("last", Type::i32, {});
    weight = made.buffer("weight", Type::f64, {key});
    x = made.buffer("x", Type::f64, {key, embed});
    twice = made.buffer("twice", Type::f64, {key, embed});
    product = made.buffer("product", Type::f64, {embed});
    total = made.buffer("total", Type::f64, {embed});
    PassMaker scale(made.program, {key, embed});
    const int two = scale.literal(2, Type::f64);
    scale.store(scale.apply(F::multiply, {scale.load(x), two}), twice);
    made.add(Nest{{}, {scale.pass}, {}});
    ProductStep dot;
    dot.a = {weight, {}}, dot.b = {x, {}}, dot.c = {product, {}};
    dot.inner = {key.dim}, dot.cols = {embed.dim};
    made.add(dot);
    PassMaker sum(made.program, {key}), write(made.program, {});
    sum.reduce(sum.apply(F::multiply, {sum.load(weight), sum.load(x)}), Reduce::sum, 0);
    write.store(write.row(0, Type::f64), total);
    made.add(Nest{{embed}, {sum.pass, write.pass}, {Type::f64}});
    Routine routine{"routine", std::move(made.steps), {}, {{key.dim, last}}};
    made.program.routines.push_back(std::move(routine));
    bound_steps(made.program);
    made.steps = std::move(made.program.routines.back().steps);
    made.program.routines.clear();
  }

  void expect(int32_t index) {
    for (const Step& step : made.steps) EXPECT_EQ(verify_step(made.program, step), std::vector<std::string>{});
    made.run([&](const View& view) { fill(view, index); }, [&](const View& view) { check(view, index); });
  }

  void fill(const View& view, int32_t index) const {
    view.of<int32_t>(last)[0] = index;
    std::ranges::fill(view.of<double>(twice), -1.0);
    fill_numbers(view.of<double>(weight), 1);
    fill_numbers(view.of<double>(x), 2);
    const Range part = view.range(key);
    for (int64_t at = std::max<int64_t>(index + 1, part.begin); at < part.end; ++at) {
      view.of<double>(weight)[static_cast<size_t>(at - part.begin)] = nan;
      std::fill_n(view.of<double>(x).begin() + (at - part.begin) * width, width, nan);
    }
  }

  void check(const View& view, int32_t index) const {
    const Range part = view.range(key);
    const auto all = view.of<double>(x), weights = view.of<double>(weight), doubled = view.of<double>(twice);
    for (size_t e = 0; e < width; ++e) {
      double expected = 0;
      for (size_t k = 0; k < static_cast<size_t>(part.size()); ++k) {
        const bool there = part.begin + static_cast<int64_t>(k) <= index;
        const double element = all[k * width + e];
        if (there) expected += weights[k] * element;
        ASSERT_EQ(doubled[k * width + e], there ? 2 * element : -1.0) << "key " << part.begin + static_cast<int64_t>(k);
      }
      ASSERT_NEAR(view.of<double>(product)[e], expected, 1e-14);
      ASSERT_NEAR(view.of<double>(total)[e], expected, 1e-14);
    }
  }
};

TEST(Bound, of_one_rank) {
  for (const int32_t last : {0, 1, 15, 16, 19, 20}) UpTo(1).expect(last);
}

TEST(Bound, of_ranks_that_hold_parts_some_of_them_behind_it) {
  for (const int32_t last : {0, 6, 7, 8, 13, 14, 20}) UpTo(3).expect(last);
}

TEST(Bound, along_no_dim_that_a_product_walks_inside_of_another) {
  HandMade made;
  const LocalDim key = whole(made.dim("key", keys)), head = whole(made.dim("head", 2)), e = whole(made.dim("e", 3));
  const BufferId last = made.buffer("last", Type::i32, {}), a = made.buffer("a", Type::f32, {head, key}),
                 b = made.buffer("b", Type::f32, {head, key, e}), c = made.buffer("c", Type::f32, {e});
  ProductStep dot;
  dot.a = {a, {}}, dot.b = {b, {}}, dot.c = {c, {}};
  dot.inner = {head.dim, key.dim}, dot.cols = {e.dim};
  made.add(dot);
  made.program.routines.push_back({"routine", std::move(made.steps), {}, {{key.dim, last}}});
  bound_steps(made.program);
  EXPECT_TRUE(std::get<ProductStep>(made.program.routines.front().steps.front().what).bounds.empty());
}

TEST(Bound, is_an_index_along_a_dim_of_the_step) {
  UpTo one(1);
  auto& nest = std::get<Nest>(one.made.steps.front().what);
  nest.bounds.front().last = {one.weight, {}};
  EXPECT_EQ(verify_step(one.made.program, one.made.steps.front()).front(),
            "nest, key <= weight stops along key at weight, which is no index");
  auto& product = std::get<ProductStep>(one.made.steps[1].what);
  product.bounds.front().along = whole(one.made.dim("other", 3));
  EXPECT_EQ(verify_step(one.made.program, one.made.steps[1]).front(),
            "product product = weight * x, rows [] inner [key] cols [embed], other <= last stops along other, which "
            "leads none of its lists");
}

}  // namespace
}  // namespace mesh::tests
