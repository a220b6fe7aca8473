#include "checkpoint/tensor_part.h"

#include <gtest/gtest.h>

#include <map>

#include "meshrt/checkpoint.h"
#include "meshrt/collectives.h"

namespace meshrt {
namespace {

// Every split of a tensor, every beginning and end within a part: the runs name the places that counting finds.
TEST(TensorPart, RunsAreThePlacesOfThePart) {
  const int64_t sizes[] = {3, 4, 2};
  size_t runs = 0;
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 4; ++b)
      for (int64_t c = 0; c < 2; ++c) {
        const std::vector<Extent> part = {{sizes[0], a, 3}, {sizes[1], 0, b + 1}, {sizes[2], c, 2}};
        std::vector<int64_t> places;
        for (int64_t i = a; i < 3; ++i)
          for (int64_t j = 0; j <= b; ++j)
            for (int64_t k = c; k < 2; ++k) places.push_back((i * 4 + j) * 2 + k);
        const auto count = static_cast<int64_t>(places.size());
        for (int64_t first = 0; first <= count; ++first)
          for (int64_t last = first; last <= count; ++last) {
            int64_t next = first;
            for_each_run(part, first, last, [&](int64_t whole, int64_t at, int64_t length) {
              EXPECT_EQ(at, next);
              for (int64_t i = 0; i < length; ++i) EXPECT_EQ(whole + i, places[static_cast<size_t>(at + i)]);
              next = at + length;
              ++runs;
            });
            EXPECT_EQ(next, last);
          }
      }
  EXPECT_GT(runs, 1000U);
}

// The same of dims that are dealt, in every part: ranges of neighbours are one run.
TEST(TensorPart, RunsOfDealtDims) {
  const Deal table{Ownership::table, 3, 1, {{{2, 3}, {6, 7}}, {{0, 2}, {4, 6}}, {{3, 4}}}};
  for (const Deal& deal : {zigzag(3), rounds(3, 2), table})
    for (int64_t part = 0; part < 3; ++part)
      for (const int64_t inner : {1, 4}) {
        const int64_t begin = part_begin(7, deal, part, 3), end = part_begin(7, deal, part + 1, 3);
        const std::vector<Extent> extents = {{2, 0, 2}, {7, begin, end, deal}, {4, 0, inner}};
        std::vector<int64_t> places;
        for (int64_t o = 0; o < 2; ++o)
          for (const int64_t index : indices_at(7, deal, begin, end))
            for (int64_t i = 0; i < inner; ++i) places.push_back((o * 7 + index) * 4 + i);
        const auto count = static_cast<int64_t>(places.size());
        size_t runs = 0;
        for (int64_t first = 0; first <= count; ++first) {
          int64_t next = first;
          for_each_run(extents, first, count, [&](int64_t whole, int64_t at, int64_t length) {
            EXPECT_EQ(at, next);
            for (int64_t i = 0; i < length; ++i) EXPECT_EQ(whole + i, places[static_cast<size_t>(at + i)]);
            next = at + length;
            runs += first == 0;
          });
          EXPECT_EQ(next, count);
        }
        const size_t ranges = ranges_at(7, deal, begin, end).size(), rows = static_cast<size_t>(end - begin);
        EXPECT_EQ(runs, 2 * (inner == 4 ? ranges : rows));
      }
}

TEST(TensorPart, DealsAsText) {
  const Deal table{Ownership::table, 2, 1, {{{0, 3}, {8, 10}}, {{3, 8}}}};
  for (const Deal& deal : {Deal{}, zigzag(4), rounds(4, 2), table}) EXPECT_EQ(deal_of(to_text(deal)), deal);
  EXPECT_EQ(to_text(table), "table:0..3,8..10;3..8");
  EXPECT_ANY_THROW(deal_of("zigzag"));
  EXPECT_ANY_THROW(deal_of("table:0-3"));
}

TEST(TensorPart, AWholeTensorIsOneRun) {
  const std::vector<Extent> part = {{3, 0, 3}, {4, 0, 4}};
  int runs = 0;
  for_each_run(part, 0, 12, [&](int64_t, int64_t, int64_t) { ++runs; });
  EXPECT_EQ(runs, 1);
  for_each_run({}, 0, 1, [&](int64_t whole, int64_t, int64_t count) { EXPECT_EQ(whole + count, 1); });
  const std::vector<Extent> nothing = {{3, 1, 1}, {4, 0, 4}};
  for_each_run(nothing, 0, 0, [&](int64_t, int64_t, int64_t) { ADD_FAILURE(); });
}

// Whatever splits a tensor, the shares of all ranks are each element once.
TEST(TensorPart, SharesMakeUpTheWhole) {
  const std::vector<MeshAxis> mesh = {{"rows", 2, 3}, {"columns", 3, 1}};
  for (const auto& [first, second] : std::vector<std::pair<std::vector<int>, std::vector<int>>>{
           {{}, {}}, {{0}, {}}, {{1}, {}}, {{0}, {1}}, {{1}, {0}}, {{0, 1}, {}}, {{}, {1, 0}}}) {
    std::map<int64_t, int> seen;
    for (int rank = 0; rank < 6; ++rank) {
      Tensor tensor{.name = "w", .role = Role::parameter, .type = Type::f32, .dims = {}, .initial = {}};
      for (const auto& [size, axes] : {std::pair(int64_t{7}, first), std::pair(int64_t{5}, second)}) {
        int64_t part = 0, parts = 1;
        for (const int axis : axes) {
          part = part * mesh[axis].size + rank / mesh[axis].stride % mesh[axis].size;
          parts *= mesh[axis].size;
        }
        tensor.dims.push_back({"d", size, part_begin(size, part, parts), part_begin(size, part + 1, parts), axes});
      }
      const Share share = share_of(tensor, mesh, rank);
      for_each_run(extents_of(tensor), share.first, share.last, [&](int64_t whole, int64_t, int64_t count) {
        for (int64_t i = 0; i < count; ++i) ++seen[whole + i];
      });
    }
    EXPECT_EQ(seen.size(), 35U);
    for (const auto& [place, times] : seen) EXPECT_EQ(times, 1) << place;
  }
}

// Ranks at some coordinates of an axis have copies, and write a share each; the others have nothing.
TEST(TensorPart, CopiesAtSomeCoordinatesShareTheWhole) {
  const std::vector<MeshAxis> mesh = {{"rows", 2, 3}, {"columns", 3, 1}};
  for (const std::vector<int>& columns : std::vector<std::vector<int>>{{1}, {0, 2}, {0, 1, 2}}) {
    int64_t written = 0;
    for (int rank = 0; rank < 6; ++rank) {
      const int64_t size = std::ranges::count(columns, rank % 3) > 0 ? 12 : 0;
      Tensor tensor{
          .name = "w", .role = Role::parameter, .type = Type::f32, .dims = {{"d", 12, 0, size, {}}}, .initial = {}};
      tensor.places = {{1, columns}};
      const Share share = share_of(tensor, mesh, rank);
      EXPECT_EQ(share.first, size == 0 ? 0 : written % 12) << rank;
      EXPECT_EQ(share.count(), size == 0 ? 0 : 12 / (2 * std::ssize(columns))) << rank;
      written += share.count();
    }
    EXPECT_EQ(written, 12);
  }
}

// The hash of a whole is the sum of those of its parts; a change of any bit, and any two numbers that change places,
// show.
TEST(HashElements, SeesEveryChange) {
  for (const size_t size : {1, 2, 4, 8}) {
    std::vector<std::byte> bytes(24 * size);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
    const uint64_t whole = hash_elements(bytes, size, 0);
    const std::span span(bytes);
    EXPECT_EQ(whole, hash_elements(span.first(7 * size), size, 0) + hash_elements(span.subspan(7 * size), size, 7));
    EXPECT_NE(whole, hash_elements(bytes, size, 1));
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
      EXPECT_NE(whole, hash_elements(bytes, size, 0));
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
    for (size_t i = 0; i < 23; ++i) {
      std::swap_ranges(&bytes[i * size], &bytes[(i + 1) * size], &bytes[(i + 1) * size]);
      EXPECT_NE(whole, hash_elements(bytes, size, 0));
      std::swap_ranges(&bytes[i * size], &bytes[(i + 1) * size], &bytes[(i + 1) * size]);
    }
    EXPECT_EQ(whole, hash_elements(bytes, size, 0));
  }
  EXPECT_EQ(hash_elements({}, 4, 0), 0U);
}

}  // namespace
}  // namespace meshrt
