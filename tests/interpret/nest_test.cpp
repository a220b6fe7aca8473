// Loop nests of the interpreter against plain loops, bit for bit.
#include <gtest/gtest-spi.h>

#include <cmath>
#include <limits>

#include "meshrt/activation.h"
#include "meshrt/lanes.h"
#include "meshrt/math.h"
#include "meshrt/shared_reduction.h"
#include "tests/interpret/hand_made.h"

namespace mesh::tests {
namespace {

using F = MapFunction;

TEST(Nest, ComputesElementByElement) {
  HandMade made;
  const DimId a = made.dim("a", 3), b = made.dim("b", 5), c = made.dim("c", 600);  // c: more than two chunks
  const BufferId x = made.buffer("x", Type::f32, {whole(a), whole(b), whole(c)});
  const BufferId turned = made.buffer("turned", Type::f32, {whole(c), whole(a)}, Space::own);
  const BufferId bias = made.buffer("bias", Type::f32, {whole(b)});
  const BufferId y = made.buffer("y", Type::f32, {whole(a), whole(b), whole(c)}, Space::own);
  PassMaker pass(made.program, {whole(b), whole(c)});
  const int sum = pass.apply(F::multiply, {pass.load(x), pass.load(turned)});
  const int biased = pass.apply(F::add, {sum, pass.load(bias)});
  pass.store(pass.apply(F::gelu, {pass.apply(F::multiply, {biased, pass.literal(0.1, Type::f32)})}), y);
  made.add(Nest{{whole(a)}, {pass.pass}, {}});
  made.run(
      [&](const View& view) {
        fill_numbers(view.of<float>(x), 1);
        fill_numbers(view.of<float>(turned), 2);
        fill_numbers(view.of<float>(bias), 3);
      },
      [&](const View& view) {
        for (size_t i = 0; i < 3; ++i)
          for (size_t j = 0; j < 5; ++j)
            for (size_t k = 0; k < 600; ++k) {
              const float v = view.of<float>(x)[(i * 5 + j) * 600 + k] * view.of<float>(turned)[k * 3 + i];
              ASSERT_EQ(view.of<float>(y)[(i * 5 + j) * 600 + k], meshrt::gelu((v + view.of<float>(bias)[j]) * 0.1f));
            }
      });
}

TEST(Nest, WalksByIndexMaps) {
  HandMade made;
  const DimId a = made.dim("a", 3), b = made.dim("b", 700), part = made.dim("part", 233);  // b: more than two chunks
  const BufferId x = made.buffer("x", Type::f32, {whole(a), whole(b)});
  const BufferId third = made.buffer("third", Type::f32, {whole(a), whole(part)});
  const BufferId spread = made.buffer("spread", Type::f32, {whole(b), whole(a)}, Space::own);
  const BufferId last = made.buffer("last", Type::f32, {whole(a)});
  const BufferId sum = made.buffer("sum", Type::f32, {whole(a), whole(b)});
  const auto load = [](PassMaker& pass, BufferId buffer, IndexMap map) {
    return pass.add(Scalar::Load{{buffer, {}, {map}}}, Type::f32);
  };
  PassMaker thirds(made.program, {whole(a), whole(part)});  // 1, 4, ..
  thirds.store(load(thirds, x, {1, part, 1, 3, 1, {}}), third);
  PassMaker spreads(made.program, {whole(b), whole(a)});
  spreads.store(load(spreads, third, {1, b, -1, 1, 3, 0.5}), spread);
  PassMaker lasts(made.program, {whole(a)});
  lasts.store(load(lasts, x, {1, {}, 699, 1, 1, {}}), last);
  PassMaker sums(made.program, {whole(a), whole(b)});  // each reads what the one before has stored
  sums.store(sums.apply(F::add, {load(sums, sum, {1, b, -1, 1, 1, 0.0}), sums.load(x)}), sum);
  for (const PassMaker* pass : {&thirds, &spreads, &lasts, &sums}) made.add(Nest{{}, {pass->pass}, {}});
  made.run([&](const View& view) { fill_numbers(view.of<float>(x), 1); },
           [&](const View& view) {
             for (size_t i = 0; i < 3; ++i) {
               float total = 0;
               for (size_t j = 0; j < 700; ++j) {
                 const float v = view.of<float>(x)[i * 700 + j];
                 const bool taken = j >= 1 && (j - 1) % 3 == 0 && (j - 1) / 3 < 233;
                 if (taken) {
                   ASSERT_EQ(view.of<float>(third)[i * 233 + (j - 1) / 3], v);
                 }
                 ASSERT_EQ(view.of<float>(spread)[j * 3 + i], taken ? v : 0.5f);
                 total += v;
                 ASSERT_EQ(view.of<float>(sum)[i * 700 + j], total);
               }
               ASSERT_EQ(view.of<float>(last)[i], view.of<float>(x)[i * 700 + 699]);
             }
           });
}

TEST(Nest, KnowsIndicesTurnsAndSteps) {
  HandMade made({{"all", 3}});
  const DimId layer = made.dim("layer", 2), a = made.dim("a", 7), b = made.dim("b", 4);
  const LocalDim part = split(a, {0});
  const BufferId y = made.buffer("y", Type::i32, {whole(layer), part, whole(b)});
  const BufferId s = made.buffer("s", Type::f64, {part});
  const LoopId loop = made.loop();
  PassMaker pass(made.program, {part, whole(b)});
  const int ten = pass.literal(10, Type::i32), hundred = pass.literal(100, Type::i32);
  const int place = pass.apply(F::add, {pass.apply(F::multiply, {pass.index(a), ten}), pass.index(b)});
  pass.store(pass.apply(F::add, {pass.apply(F::multiply, {pass.turn(loop), hundred}), place}), y, {loop});
  ForStep turns{loop, layer, 2, true, {}};
  turns.body.push_back({Nest{{}, {pass.pass}, {}}, Part::forward, {}, "", {}});
  made.add(std::move(turns));
  PassMaker steps(made.program, {part});
  const int rate = steps.add(Scalar::Rate{{{{"constant", {{"rate", 0.25}}}}}}, Type::f64);
  steps.store(steps.apply(F::add, {steps.add(Scalar::StepNumber{}, Type::f64), rate}), s);
  made.add(Nest{{}, {steps.pass}, {}});
  meshrt::StepInput input;
  input.step = 3;
  made.run([](const View&) {},
           [&](const View& view) {
             const Range range = view.range(part);
             for (int64_t l = 0, at = 0; l < 2; ++l)
               for (int64_t i = range.begin; i < range.end; ++i)
                 for (int64_t j = 0; j < 4; ++j, ++at)
                   ASSERT_EQ(view.of<int32_t>(y)[static_cast<size_t>(at)], l * 100 + i * 10 + j);
             for (const double step : view.of<double>(s)) ASSERT_EQ(step, 3.25);
           },
           1, input);
}

TEST(Nest, DrawsBySamplesPlacesInTheirSet) {
  HandMade made({{"all", 3}});
  const DimId a = made.dim("a", 7), b = made.dim("b", 4);
  const LocalDim part = split(a, {0});
  const BufferId y = made.buffer("y", Type::f64, {part, whole(b)});
  PassMaker pass(made.program, {part, whole(b)});
  pass.store(pass.add(Scalar::Random{Distribution::uniform, "draw", {{a, {}}, {b, {}}}, {}, 4}, Type::f64), y);
  made.add(Nest{{}, {pass.pass}, {}});
  const meshrt::RandomKey key = meshrt::RandomKey(1, "draw").at(3);
  made.run([](const View&) {},
           [&](const View& view) {
             const Range range = view.range(part);
             for (int64_t i = range.begin, at = 0; i < range.end; ++i)
               for (int64_t j = 0; j < 4; ++j, ++at)
                 ASSERT_EQ(view.of<double>(y)[static_cast<size_t>(at)],
                           meshrt::uniform<double>(key, (20 + i % 5) * 4 + j));
           },
           1, meshrt::reading({.step = 3}, 20, 5));
}

TEST(Nest, SwapsInPlace) {
  HandMade made;
  const DimId a = made.dim("a", 300);
  const BufferId x = made.buffer("x", Type::i64, {whole(a)}), y = made.buffer("y", Type::i64, {whole(a)});
  PassMaker pass(made.program, {whole(a)});
  const int old_x = pass.load(x), old_y = pass.load(y);
  pass.store(old_y, x);
  pass.store(old_x, y);
  made.add(Nest{{}, {pass.pass}, {}});
  made.run(
      [&](const View& view) {
        for (size_t i = 0; i < 300; ++i) view.of<int64_t>(x)[i] = static_cast<int64_t>(i), view.of<int64_t>(y)[i] = -1;
      },
      [&](const View& view) {
        for (size_t i = 0; i < 300; ++i) {
          ASSERT_EQ(view.of<int64_t>(x)[i], -1);
          ASSERT_EQ(view.of<int64_t>(y)[i], static_cast<int64_t>(i));
        }
      });
}

TEST(Nest, ReadsAPartOfAWhole) {
  HandMade made({{"all", 4}});
  const DimId a = made.dim("a", 10), b = made.dim("b", 3);
  const LocalDim part = split(a, {0});
  const BufferId x = made.buffer("x", Type::i32, {whole(b), whole(a)}),
                 y = made.buffer("y", Type::i32, {part, whole(b)});
  PassMaker pass(made.program, {whole(b)});
  pass.store(pass.load(x), y);
  made.add(Nest{{part}, {pass.pass}, {}});
  made.run(
      [&](const View& view) {
        for (size_t i = 0; i < 30; ++i) view.of<int32_t>(x)[i] = static_cast<int32_t>(i);
      },
      [&](const View& view) {
        const Range range = view.range(part);
        for (int64_t i = 0; i < range.size(); ++i)
          for (int64_t j = 0; j < 3; ++j)
            ASSERT_EQ(view.of<int32_t>(y)[static_cast<size_t>(i * 3 + j)], j * 10 + range.begin + i);
      });
}

// softmax: three passes over each row, two row values.
class Rows : public testing::TestWithParam<int64_t> {};

TEST_P(Rows, ReduceInLanes) {
  const int64_t n = GetParam();
  HandMade made;
  const DimId a = made.dim("a", 4), b = made.dim("b", n);
  const BufferId x = made.buffer("x", Type::f32, {whole(a), whole(b)}),
                 y = made.buffer("y", Type::f32, {whole(a), whole(b)});
  PassMaker top(made.program, {whole(b)}), total(made.program, {whole(b)}), write(made.program, {whole(b)});
  top.reduce(top.load(x), Reduce::max, 0);
  total.reduce(total.apply(F::exp, {total.apply(F::subtract, {total.load(x), total.row(0, Type::f32)})}), Reduce::sum,
               1);
  const int e = write.apply(F::exp, {write.apply(F::subtract, {write.load(x), write.row(0, Type::f32)})});
  write.store(write.apply(F::divide, {e, write.row(1, Type::f32)}), y);
  made.add(Nest{{whole(a)}, {top.pass, total.pass, write.pass}, {Type::f32, Type::f32}});
  made.run([&](const View& view) { fill_numbers(view.of<float>(x), 5); },
           [&](const View& view) {
             for (int64_t i = 0; i < 4; ++i) {
               const float* row = view.of<float>(x).data() + i * n;
               const float most = meshrt::max_of<float>(n, [&](int64_t j) { return row[j]; });
               const float sum = meshrt::sum_of<float>(n, [&](int64_t j) { return meshrt::exp(row[j] - most); });
               for (int64_t j = 0; j < n; ++j)
                 ASSERT_EQ(view.of<float>(y)[static_cast<size_t>(i * n + j)], meshrt::exp(row[j] - most) / sum);
             }
           });
}

// Two inner dims: outer extents in order, the lane is the innermost index; not one long row.
TEST_P(Rows, ReduceOverTwoDims) {
  const int64_t n = GetParam();
  HandMade made;
  const DimId a = made.dim("a", 3), b = made.dim("b", 5), c = made.dim("c", n);
  const BufferId x = made.buffer("x", Type::f64, {whole(a), whole(b), whole(c)}),
                 y = made.buffer("y", Type::f64, {whole(a)});
  PassMaker sum(made.program, {whole(b), whole(c)}), write(made.program, {});
  sum.reduce(sum.load(x), Reduce::sum, 0);
  write.store(write.row(0, Type::f64), y);
  made.add(Nest{{whole(a)}, {sum.pass, write.pass}, {Type::f64}});
  made.run([&](const View& view) { fill_numbers(view.of<double>(x), 6); },
           [&](const View& view) {
             for (int64_t i = 0; i < 3; ++i) {
               meshrt::Lanes<double> lanes;
               for (int64_t j = 0; j < 5; ++j)
                 lanes.add(n, [&](int64_t k) { return view.of<double>(x)[static_cast<size_t>((i * 5 + j) * n + k)]; });
               ASSERT_EQ(view.of<double>(y)[static_cast<size_t>(i)], lanes.combine());
             }
           });
}

INSTANTIATE_TEST_SUITE_P(Lengths, Rows, testing::Values(1, 2, 7, 16, 100, 256, 1000));

// Without outer dims: in the blocks that threads of an emitted program share; and what is stored on the way.
class Wholes : public testing::TestWithParam<int64_t> {};

TEST_P(Wholes, ReduceInBlocks) {
  const int64_t n = GetParam();
  HandMade made;
  const DimId a = made.dim("a", 3), b = made.dim("b", 5), c = made.dim("c", n);
  const BufferId x = made.buffer("x", Type::f32, {whole(a), whole(b), whole(c)}),
                 twice = made.buffer("twice", Type::f32, {whole(a), whole(b), whole(c)}, Space::own),
                 y = made.buffer("y", Type::f32, {}), most = made.buffer("most", Type::f32, {});
  PassMaker sum(made.program, {whole(a), whole(b), whole(c)}), write(made.program, {});
  const int value = sum.load(x);
  sum.store(sum.apply(F::add, {value, value}), twice);
  sum.reduce(value, Reduce::sum, 0);
  sum.reduce(value, Reduce::max, 1);
  write.store(write.row(0, Type::f32), y);
  write.store(write.row(1, Type::f32), most);
  made.add(Nest{{}, {sum.pass, write.pass}, {Type::f32, Type::f32}});
  made.run([&](const View& view) { fill_numbers(view.of<float>(x), 8); },
           [&](const View& view) {
             const auto all = view.of<float>(x);
             const auto row = [&](int64_t r, auto& lanes) {
               lanes.add(n, [&](int64_t k) { return all[static_cast<size_t>(r * n + k)]; });
             };
             ASSERT_EQ(view.of<float>(y)[0], meshrt::shared_sum<float>(15, n, row));
             ASSERT_EQ(view.of<float>(most)[0], meshrt::shared_max<float>(15, n, row));
             for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(view.of<float>(twice)[i], all[i] + all[i]);
           });
}

INSTANTIATE_TEST_SUITE_P(Lengths, Wholes, testing::Values(1, 100, 1'093, 4'096, 4'097, 9'000));

template <class T>
class Numbers : public testing::Test {};
using NumberTypes = testing::Types<float, double, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(Numbers, NumberTypes);

TYPED_TEST(Numbers, ReduceEveryWay) {
  using T = TypeParam;
  constexpr Type type = meshrt::type_of<T>;
  HandMade made;
  const DimId a = made.dim("a", 4), b = made.dim("b", 37);
  const BufferId x = made.buffer("x", type, {whole(a), whole(b)});
  const BufferId rows = made.buffer("rows", type, {whole(a)}), columns = made.buffer("columns", type, {whole(b)}),
                 all = made.buffer("all", type, {}), largest = made.buffer("largest", type, {whole(b)}),
                 smallest = made.buffer("smallest", type, {whole(a)}), more = made.buffer("more", type, {whole(b)});
  PassMaker sum(made.program, {whole(b)}), write(made.program, {}), other(made.program, {whole(b)});
  sum.reduce(sum.load(x), Reduce::sum, 0);
  sum.reduce(0, Reduce::min, 1);
  write.store(write.row(0, type), rows);
  write.store(write.row(1, type), smallest);
  made.add(Nest{{whole(a)}, {sum.pass, write.pass}, {type, type}});
  const int value = other.load(x);
  other.accumulate(value, Reduce::sum, columns);
  other.accumulate(value, Reduce::sum, all);
  other.accumulate(value, Reduce::max, largest);
  other.accumulate(value, Reduce::sum, more, true);
  made.add(Nest{{whole(a)}, {other.pass}, {}});
  made.run(
      [&](const View& view) {
        for (size_t i = 0; i < view.of<T>(x).size(); ++i) view.of<T>(x)[i] = static_cast<T>((i * 37 + 11) % 101);
        fill_numbers(view.of<T>(all), 1);  // overwritten
        for (size_t j = 0; j < 37; ++j) view.of<T>(more)[j] = static_cast<T>(j);
      },
      [&](const View& view) {
        const auto at = [&](int64_t i, int64_t j) { return view.of<T>(x)[static_cast<size_t>(i * 37 + j)]; };
        T total = 0;
        for (int64_t i = 0; i < 4; ++i) {
          ASSERT_EQ(view.of<T>(rows)[static_cast<size_t>(i)],
                    meshrt::sum_of<T>(37, [&](int64_t j) { return at(i, j); }));
          ASSERT_EQ(view.of<T>(smallest)[static_cast<size_t>(i)],
                    meshrt::min_of<T>(37, [&](int64_t j) { return at(i, j); }));
          for (int64_t j = 0; j < 37; ++j) total = static_cast<T>(total + at(i, j));
        }
        ASSERT_EQ(view.of<T>(all)[0], total);
        for (int64_t j = 0; j < 37; ++j) {
          T sum_of_column = 0, largest_of_column = at(0, j), added = static_cast<T>(j);
          for (int64_t i = 0; i < 4; ++i) {
            sum_of_column = static_cast<T>(sum_of_column + at(i, j));
            largest_of_column = std::max(largest_of_column, at(i, j));
            added = static_cast<T>(added + at(i, j));
          }
          ASSERT_EQ(view.of<T>(columns)[static_cast<size_t>(j)], sum_of_column);
          ASSERT_EQ(view.of<T>(largest)[static_cast<size_t>(j)], largest_of_column);
          ASSERT_EQ(view.of<T>(more)[static_cast<size_t>(j)], added);
        }
      },
      1);
}

TEST(Nest, FindsTheFirstOfTheLargest) {
  constexpr float none = -std::numeric_limits<float>::infinity();
  HandMade made;
  const DimId a = made.dim("a", 3), b = made.dim("b", 300);
  const BufferId x = made.buffer("x", Type::f32, {whole(a), whole(b)}), y = made.buffer("y", Type::i32, {whole(a)}),
                 z = made.buffer("z", Type::i32, {whole(a)});
  PassMaker find(made.program, {whole(b)}), write(made.program, {});
  find.reduce(find.load(x), Reduce::max, 0, true);
  find.reduce(0, Reduce::min, 1, true);
  write.store(write.row(0, Type::i32), y);
  write.store(write.row(1, Type::i32), z);
  made.add(Nest{{whole(a)}, {find.pass, write.pass}, {Type::i32, Type::i32}});
  made.run(
      [&](const View& view) {
        for (size_t i = 0; i < 900; ++i) view.of<float>(x)[i] = i < 300 ? static_cast<float>(i % 270) : none;
        view.of<float>(x)[600 + 280] = 1;
      },
      [&](const View& view) {
        EXPECT_EQ(view.of<int32_t>(y)[0], 269);
        EXPECT_EQ(view.of<int32_t>(y)[1], 0);  // nothing is larger than nothing
        EXPECT_EQ(view.of<int32_t>(y)[2], 280);
        EXPECT_EQ(view.of<int32_t>(z)[0], 0);
        EXPECT_EQ(view.of<int32_t>(z)[2], 0);
      });
}

TEST(Nest, LeavesEmptyPartsAlone) {
  HandMade made({{"all", 4}});
  const DimId a = made.dim("a", 2), b = made.dim("b", 3);  // two ranks own nothing of a
  const LocalDim part = split(a, {0});
  const BufferId x = made.buffer("x", Type::f32, {part, whole(b)}), sums = made.buffer("sums", Type::f32, {whole(b)}),
                 row = made.buffer("row", Type::f32, {whole(b)});
  PassMaker add(made.program, {whole(b)});
  add.accumulate(add.load(x), Reduce::sum, sums);
  made.add(Nest{{part}, {add.pass}, {}});
  PassMaker over(made.program, {part}), write(made.program, {});
  over.reduce(over.load(x), Reduce::sum, 0);
  write.store(write.row(0, Type::f32), row);
  made.add(Nest{{whole(b)}, {over.pass, write.pass}, {Type::f32}});
  made.run([&](const View& view) { std::ranges::fill(view.of<float>(x), 2.0f); },
           [&](const View& view) {
             const float expected = view.range(part).size() > 0 ? 2.0f : 0.0f;
             for (const float sum : view.of<float>(sums)) EXPECT_EQ(sum, expected);
             for (const float sum : view.of<float>(row)) EXPECT_EQ(sum, expected);
           });
}

TEST(Nest, RefusesWhatDoesNotFit) {
  HandMade made;
  const DimId a = made.dim("a", 4);
  const BufferId x = made.buffer("x", Type::f32, {whole(a)}), n = made.buffer("n", Type::i32, {whole(a)});
  PassMaker pass(made.program, {whole(a)});
  pass.store(pass.apply(F::exp, {pass.load(n)}), n);  // no exp of integers
  made.add(Nest{{}, {pass.pass}, {}});
  testing::internal::CaptureStderr();
  EXPECT_NONFATAL_FAILURE(made.run([](const View&) {}, [](const View&) {}), "code");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("there is no exp of i32"), std::string::npos);
  HandMade other;
  const DimId b = other.dim("b", 4);
  const BufferId y = other.buffer("y", Type::f32, {whole(b)}), m = other.buffer("m", Type::i32, {whole(b)});
  PassMaker store(other.program, {whole(b)});
  store.store(store.load(y), m);  // an f32 into an i32
  other.add(Nest{{}, {store.pass}, {}});
  testing::internal::CaptureStderr();
  EXPECT_NONFATAL_FAILURE(other.run([](const View&) {}, [](const View&) {}), "code");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("buffer m of i32 is accessed as f32"), std::string::npos);
  static_cast<void>(x);
}

}  // namespace
}  // namespace mesh::tests
