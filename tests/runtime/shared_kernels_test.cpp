// What the threads of a rank share beside products: lookups, sorts, routing, sums of experts, random numbers, ordered
// sums, sums to one number. The bits of one thread for every number of them, also where sizes are odd, where there are
// fewer pieces than threads, and where there is nothing.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/combine.h"
#include "meshrt/lookup.h"
#include "meshrt/ordered_sums.h"
#include "meshrt/program.h"
#include "meshrt/random.h"
#include "meshrt/route.h"
#include "meshrt/shared_reduction.h"
#include "meshrt/sort.h"
#include "meshrt/threads.h"

namespace meshrt::test {
namespace {

std::vector<float> numbers(int64_t count, uint64_t seed) {
  std::vector<float> all(static_cast<size_t>(count));
  const Part part{count, 0, count};
  if (count > 0) fill_normal<float>(all.data(), {&part, 1}, RandomKey(seed, "numbers"), 0, 1);
  return all;
}

/// -1 among them: what is no row of any rank.
std::vector<int32_t> ids(int64_t count, int64_t below, uint64_t seed) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(static_cast<int32_t>(random_words(RandomKey(seed, "ids"), uint64_t(i))[0] % uint64_t(below + 1)) - 1);
  return all;
}

template <class T>
std::vector<uint8_t> bytes(const std::vector<T>& of) {
  std::vector<uint8_t> all(of.size() * sizeof(T));
  if (!of.empty()) std::memcpy(all.data(), of.data(), all.size());
  return all;
}

/// make() gives what is compared, as bytes.
void expect_same_on_threads(const std::function<std::vector<uint8_t>()>& make) {
  const std::vector<uint8_t> alone = make();
  for (const int count : {1, 2, 3, 4}) {
    const Threads threads(count);
    EXPECT_TRUE(make() == alone) << count << " threads";
  }
}

struct Size {
  int64_t count, rows, width;
};
const std::vector<Size> sizes{{0, 3, 5},      {1, 1, 1},        {7, 5, 0},       {3, 2, 40'000},
                              {5'000, 13, 1}, {2'049, 257, 67}, {1'000, 40, 128}};

TEST(SharedLookup, TakesRows) {
  for (const auto& [count, rows, width] : sizes) {
    const std::vector<float> table = numbers(rows * width, 1);
    const std::vector<int32_t> at = ids(count, rows, 2);
    expect_same_on_threads([&, count = count, rows = rows, width = width] {
      std::vector<float> result(static_cast<size_t>(count * width), 7.0F);
      take(Lookup{0, rows - 1, width}, table.data(), at.data(), count, result.data());
      return bytes(result);
    });
  }
}

TEST(SharedLookup, AddsRowsInTheirOrder) {
  for (const auto& [count, rows, width] : sizes) {
    const std::vector<float> added = numbers(count * width, 3);
    const std::vector<int32_t> at = ids(count, rows, 4);
    expect_same_on_threads([&, count = count, rows = rows, width = width] {
      std::vector<float> table = numbers(rows * width, 5), largest = table;
      scatter_add(Lookup{0, rows - 1, width}, table.data(), at.data(), count, added.data());
      scatter_max(Lookup{0, rows, width}, largest.data(), at.data(), count, added.data());
      table.insert(table.end(), largest.begin(), largest.end());
      return bytes(table);
    });
  }
}

TEST(SharedSort, LinesAlongAnyDim) {
  for (const Lines& lines : {Lines{0, 4, 2, 3}, Lines{1, 1, 1, 1}, Lines{3, 5'000, 5'000, 1}, Lines{1'031, 64, 3, 1},
                             Lines{5, 300, 40, 7}}) {
    std::vector<float> x = numbers(lines.outer * lines.size * lines.inner, 6);
    for (size_t i = 0; i < x.size(); i += 5) x[i] = x[i / 2];  // equal ones
    expect_same_on_threads([&] {
      const auto count = static_cast<size_t>(lines.outer * lines.count * lines.inner);
      std::vector<float> values(count), placed(x.size());
      std::vector<int32_t> indices(count);
      sort_lines(lines, true, x.data(), values.data(), indices.data());
      place_lines(lines, indices.data(), values.data(), placed.data());
      std::vector<uint8_t> all = bytes(values);
      for (const auto& more : {bytes(indices), bytes(placed)}) all.insert(all.end(), more.begin(), more.end());
      return all;
    });
  }
}

TEST(SharedRouting, GivesTheSeatsOfOneThread) {
  for (const bool weighted : {false, true})
    for (const int64_t groups : {0, 1, 2, 17}) {
      const Routing routing{groups, 777, 2, 5, 100, weighted};
      const int64_t count = groups * routing.tokens * routing.choices;
      const std::vector<int32_t> chosen = ids(count, routing.experts, 8);
      const std::vector<float> weight = numbers(count, 9);
      expect_same_on_threads([&] {
        std::vector<int32_t> seat(static_cast<size_t>(count)),
            source(static_cast<size_t>(groups * routing.experts * routing.slots));
        route<float>(routing, chosen.data(), weighted ? weight.data() : nullptr, seat.data(), source.data());
        seat.insert(seat.end(), source.begin(), source.end());
        return bytes(seat);
      });
    }
}

TEST(SharedCombining, AddsInTheOrderOfOneThread) {
  for (const Combining& c : {Combining{0, 3, 2, 4, 0, 5}, Combining{1, 1, 1, 1, 0, 1}, Combining{1, 700, 2, 133, 2, 50},
                             Combining{5, 90, 3, 64, 0, 30}}) {
    const int64_t tokens = c.groups * c.tokens, choices = tokens * c.choices;
    const std::vector<float> table = numbers(c.groups * c.rows() * c.width, 10), weight = numbers(choices, 11),
                             d = numbers(tokens * c.width, 12);
    const std::vector<int32_t> at = ids(choices, c.end, 13);
    expect_same_on_threads([&] {
      std::vector<float> sum(d.size(), 7.0F), d_table(table.size(), 7.0F), d_weight(weight.size(), 7.0F);
      combine(c, table.data(), at.data(), weight.data(), sum.data());
      combine_d_table(c, at.data(), weight.data(), d.data(), d_table.data());
      combine_d_weight(c, table.data(), at.data(), d.data(), d_weight.data());
      for (const auto* more : {&d_table, &d_weight}) sum.insert(sum.end(), more->begin(), more->end());
      return bytes(sum);
    });
  }
}

TEST(SharedNumbers, AreThoseOfOneThread) {
  for (const auto& parts :
       {std::vector<Part>{}, std::vector<Part>{{50'001, 3, 50'000}}, std::vector<Part>{{7, 2, 5}, {3, 3, 3}},
        std::vector<Part>{{9, 1, 8}, {5, 0, 5}, {1'001, 1, 1'000}},
        std::vector<Part>{{40'000, 1, 39'999}, {2, 1, 2}}}) {
    int64_t count = 1;
    for (const Part& part : parts) count *= part.end - part.begin;
    expect_same_on_threads([&] {
      std::vector<double> all(static_cast<size_t>(2 * count));
      fill_truncated_normal<double>(all.data(), parts, RandomKey(1, "w"), 0, 1);
      fill_uniform<double>(all.data() + count, parts, RandomKey(1, "w"), -1, 1);
      return bytes(all);
    });
  }
}

TEST(SharedNumbers, BeginTensorsAsOneThreadDoes) {
  for (const Type type : {Type::f32, Type::bf16})
    for (const Initial& initial : {Initial{Initial::Kind::normal, 0, 1}, Initial{Initial::Kind::constant, 3}})
      expect_same_on_threads([&] {
        std::vector<uint8_t> data(40'000 * 3 * size_of(type));
        std::vector<Tensor> tensors(1);
        tensors[0].name = "w";
        tensors[0].role = Role::parameter;
        tensors[0].type = type;
        tensors[0].initial = initial;
        tensors[0].data = data.data();
        tensors[0].dims = {{"rows", 40'000, 0, 40'000, {}}, {"cols", 3, 0, 3, {}}};
        initialise(tensors, 5);
        return data;
      });
}

TEST(SharedHash, IsTheSumOfItsParts) {
  for (const int64_t count : {0, 1, 100'003}) {
    const std::vector<float> all = numbers(count, 14);
    expect_same_on_threads(
        [&] { return bytes(std::vector<uint64_t>{hash_elements(std::as_bytes(std::span(all)), sizeof(float), 9)}); });
  }
}

/// Two sums over rows, and what each row stores, in the order of one loop.
std::vector<uint8_t> in_one_loop(const std::vector<float>& x, int64_t rows, int64_t cols, std::vector<float> sum) {
  std::vector<float> squares(static_cast<size_t>(cols)), stored(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const float value = x[static_cast<size_t>(r * cols + c)];
      stored[static_cast<size_t>(r * cols + c)] = value * 2;
      sum[static_cast<size_t>(c)] += value;
      squares[static_cast<size_t>(c)] += value * value;
    }
  for (const auto* more : {&squares, &stored}) sum.insert(sum.end(), more->begin(), more->end());
  return bytes(sum);
}

TEST(OrderedSums, HaveTheBitsOfALoop) {
  for (const int64_t rows : {0, 1, 2, 63, 64, 2'049})
    for (const int64_t cols : {0, 1, 31, 64, 133, 5'000}) {
      const std::vector<float> x = numbers(rows * cols, 15), begin(static_cast<size_t>(cols), -0.0F);
      const std::vector<uint8_t> expected = in_one_loop(x, rows, cols, begin);
      const auto make = [&] {
        std::vector<float> sum = begin, squares(static_cast<size_t>(cols), 7.0F), stored(x.size());
        std::fill(squares.begin(), squares.end(), 0.0F);
        const auto sums = sums_onto(cols, sum.data(), squares.data());
        sums.each(rows, 10, [&](int64_t r, float* const* to) {
          for (int64_t c = 0; c < cols; ++c) {
            const float value = x[static_cast<size_t>(r * cols + c)];
            stored[static_cast<size_t>(r * cols + c)] = value * 2;
            to[0][c] += value;
            to[1][c] += value * value;
          }
        });
        for (const auto* more : {&squares, &stored}) sum.insert(sum.end(), more->begin(), more->end());
        return bytes(sum);
      };
      EXPECT_TRUE(make() == expected) << rows << " x " << cols;
      expect_same_on_threads(make);
    }
}

TEST(OrderedSums, KeepTheSignOfZeros) {
  const Threads threads(3);
  std::vector<double> sum{-0.0, 0.0, -0.0};
  sums_onto(3, sum.data()).each(100, 1, [](int64_t i, double* to) {
    to[0] += -0.0;
    to[1] += -0.0;
    if (i == 50) to[2] += 0.0;
  });
  EXPECT_TRUE(std::signbit(sum[0]));
  EXPECT_FALSE(std::signbit(sum[1]));
  EXPECT_FALSE(std::signbit(sum[2]));
}

TEST(OrderedSums, ThrowWhatATurnThrowsAndGoOn) {
  Threads threads(4);
  for (int64_t round = 0; round < 200; ++round) {
    double sum = 0;
    const auto turn = [&](int64_t i, double* to) {
      if (i == round) throw std::runtime_error("no");
      *to += 1;
    };
    EXPECT_THROW(sums_onto(1, &sum).each(200, 1, turn), std::runtime_error);
  }
  double sum = 1, other = 1;  // forgotten
  sums_from_zero(1, &sum, &other).each(1'000, 1, [](int64_t i, double* to, double* to_other) {
    *to += static_cast<double>(i);
    *to_other += 1;
  });
  EXPECT_EQ(sum, 999 * 500);
  EXPECT_EQ(other, 1'000);
}

/// A sum of squares over rows in pieces of 4,096 columns at most, whose blocks have 16,384 elements or more, of which
/// there are 256 at most.
float squares_in_blocks(const std::vector<float>& x, int64_t rows, int64_t cols) {
  const int64_t longest = std::min<int64_t>(cols, 4'096), of_row = cols == 0 ? 0 : (cols + longest - 1) / longest;
  const int64_t block = cols == 0 ? 1 : std::max(16'384 / longest, (rows * of_row + 255) / 256);
  Lanes<float> all, lanes;
  for (int64_t piece = 0; piece < rows * of_row; ++piece) {
    const int64_t begin = piece % of_row * longest, end = std::min(cols, begin + longest);
    for (int64_t c = begin; c < end; ++c) lanes.add_one(c, square(x[static_cast<size_t>(piece / of_row * cols + c)]));
    if ((piece + 1) % block != 0 && piece + 1 < rows * of_row) continue;
    all.join(lanes.lane);
    lanes = {};
  }
  return all.combine();
}

TEST(SharedReduction, HasTheBitsOfItsBlocks) {
  for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{{0, 5},
                                                                           {5, 0},
                                                                           {1, 1},
                                                                           {1, 4'095},
                                                                           {1, 16'385},
                                                                           {1, 100'003},
                                                                           {3, 9'001},
                                                                           {33, 1'021},
                                                                           {70'001, 3},
                                                                           {300, 16'384}}) {
    const std::vector<float> x = numbers(rows * cols, 16);
    const float expected = squares_in_blocks(x, rows, cols);
    const auto make = [&, rows = rows, cols = cols] {
      return shared_sum<float>(rows, cols, [&](int64_t r, auto& lanes) {
        lanes.add(cols, [&](int64_t c) { return square(x[static_cast<size_t>(r * cols + c)]); });
      });
    };
    EXPECT_EQ(make(), expected) << rows << " x " << cols;
    expect_same_on_threads([&] { return bytes(std::vector<float>{make()}); });
    if (rows != 1) continue;
    const auto alone = [&](int64_t c) { return square(x[static_cast<size_t>(c)]); };
    EXPECT_EQ(shared_sum<float>(cols, alone), expected);
    EXPECT_EQ(shared_max<float>(cols, alone), max_of<float>(cols, alone));
    EXPECT_EQ(shared_min<float>(cols, alone), min_of<float>(cols, alone));
  }
}

TEST(SharedReduction, IsAsLanesOfNothing) {
  const auto none = [](int64_t) { return 1.0; };
  EXPECT_EQ(shared_sum<double>(0, none), sum_of<double>(0, none));
  EXPECT_EQ(shared_max<double>(0, none), max_of<double>(0, none));
  EXPECT_EQ(shared_min<double>(0, none), min_of<double>(0, none));
}

/// Whoever comes first waits until another thread is in the loop as well.
TEST(SharedReduction, IsShared) {
  const Threads threads(2);
  const auto first = std::this_thread::get_id();
  std::atomic<bool> own = false, other = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const int64_t n = shared_sum<int64_t>(100'000, [&](int64_t) {
    (std::this_thread::get_id() == first ? own : other) = true;
    while (!(own && other) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return int64_t{1};
  });
  EXPECT_TRUE(own && other);
  EXPECT_EQ(n, 100'000);
}

}  // namespace
}  // namespace meshrt::test
