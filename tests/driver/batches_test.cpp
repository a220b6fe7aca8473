#include "data/batches.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "data/permutation.h"
#include "meshrt/collectives.h"
#include "meshrt/npy.h"
#include "test_files.h"

namespace meshrt {
namespace {

/// Input tensors of a program with memory of their own.
struct Inputs {
  Tensor& add(const std::string& name, Type type, std::vector<LocalDim> dims, int64_t bound = -1) {
    Tensor tensor{
        .name = name, .role = Role::input, .type = type, .index_bound = bound, .dims = std::move(dims), .initial = {}};
    memory.emplace_back(tensor.local_elements() * size_of(type) + 1);
    tensor.data = memory.back().data();
    return tensors.emplace_back(std::move(tensor));
  }
  template <class T>
  std::vector<T> values(size_t input) const {
    const auto* data = static_cast<const T*>(tensors[input].data);
    return {data, data + tensors[input].local_elements()};
  }
  std::vector<Tensor> tensors;
  std::vector<std::vector<std::byte>> memory;
};

LocalDim dim(const std::string& name, int64_t size) { return {name, size, 0, size, {}}; }
LocalDim part(const std::string& name, int64_t size, int index, int parts) {
  return {name, size, part_begin(size, index, parts), part_begin(size, index + 1, parts), {0}};
}

class BatchesTest : public testing::Test {
 protected:
  BatchesTest() {
    info_.name = "Model";
    info_.sample_dim = "batch", info_.sample_dims = {"batch"};
  }
  RunFile parse(const std::string& data) const { return parse_run_file("run.yaml", "data: " + data, folder_.path("")); }
  std::string error(Inputs& inputs, const std::string& data) const {
    const RunFile run = parse(data);
    return folder_.without_folder(failure_of([&] { Batches(inputs.tensors, info_, run, run.data, "data").fill(0); }));
  }
  void write_npy_file(const std::string& name, const std::vector<int64_t>& shape) const {
    std::vector<int32_t> numbers(Array{Type::i32, shape, {}}.elements());
    std::iota(numbers.begin(), numbers.end(), 0);
    write_npy(folder_.path(name), Type::i32, shape, std::as_bytes(std::span(numbers)));
  }
  TestFolder folder_;
  ProgramInfo info_;
};

using Numbers = std::vector<int32_t>;

TEST_F(BatchesTest, WindowsFollowEachOtherAndWrapRound) {
  folder_.write("a.txt", std::string("\0\1\2\3\4\5\6\7\10\11\12\13\14", 13));  // 0 to 12
  const RunFile run = parse("{ token: {file: a.txt, window: seq}, target: {of: token, shift: 1} }");
  Inputs inputs;
  inputs.tensors.reserve(2);
  inputs.add("token", Type::i32, {dim("batch", 2), dim("seq", 3)}, 256);
  inputs.add("target", Type::i32, {dim("batch", 2), dim("seq", 3)}, 256);
  const Batches batches(inputs.tensors, info_, run, run.data, "data");
  EXPECT_EQ(batches.samples(), 4);  // the last window ends at 12, its target at 13
  EXPECT_EQ(batches.whole_batches(), 2);
  EXPECT_EQ(batches.units_per_batch(), 6);
  EXPECT_STREQ(batches.unit(), "tokens");
  for (const int64_t position : {0, 4}) {
    batches.fill(position);
    EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(inputs.values<int32_t>(1), (Numbers{1, 2, 3, 4, 5, 6}));
  }
  batches.fill(2);
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(inputs.values<int32_t>(1), (Numbers{7, 8, 9, 10, 11, 12}));
}

TEST_F(BatchesTest, ABatchMayWrapInItsMiddle) {
  folder_.write("a.txt", std::string("\0\1\2\3\4\5", 6));
  const RunFile run = parse("{ token: {file: a.txt, window: seq} }");
  Inputs inputs;
  inputs.add("token", Type::i32, {dim("batch", 2), dim("seq", 2)}, 256);
  const Batches batches(inputs.tensors, info_, run, run.data, "data");
  EXPECT_EQ(batches.samples(), 3);
  batches.fill(2);
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{4, 5, 0, 1}));
}

TEST(Permutation, IsOne) {
  for (const int64_t size : {1, 2, 3, 4, 5, 17, 64, 100, 1000, 4097}) {
    std::set<int64_t> seen;
    const Permutation permutation(size, RandomKey(1, "data").at(0));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t place = permutation(i);
      EXPECT_TRUE(place >= 0 && place < size && seen.insert(place).second) << size;
    }
  }
  // Beyond 32 bits, and not the one of another key.
  const int64_t large = int64_t{1} << 40;
  const Permutation first(large, RandomKey(1, "data").at(0)), second(large, RandomKey(1, "data").at(1));
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(first(i), large);
    EXPECT_NE(first(i), second(i));
  }
}

// Each number is as likely at each place as any other: over 6000 keys every pair is met 1000 times, give or take four
// deviations.
TEST(Permutation, FavoursNoPlace) {
  int met[6][6] = {};
  for (uint64_t key = 0; key < 6000; ++key) {
    const Permutation permutation(6, RandomKey(3, "data").at(key));
    for (int64_t i = 0; i < 6; ++i) ++met[i][permutation(i)];
  }
  for (const auto& row : met)
    for (const int times : row) EXPECT_NEAR(times, 1000, 4 * std::sqrt(6000 * (1 / 6.0) * (5 / 6.0)));
}

// Every pass has every sample once, in an order of its own, whatever the batch and the rank's part of it.
TEST_F(BatchesTest, SamplesMayBeShuffled) {
  write_npy_file("a.npy", {7});
  const RunFile run = parse("{ x: {file: a.npy} }");
  const auto order = [&](uint64_t seed, int64_t batch, int which, int parts) {
    Inputs inputs;
    inputs.add("x", Type::i32, {part("batch", batch, which, parts)});
    Batches batches(inputs.tensors, info_, run, run.data, "data");
    batches.seed(seed, true);
    Numbers all;
    for (int64_t position = 0; position + batch <= 21; position += batch) {
      batches.fill(position);
      const Numbers some = inputs.values<int32_t>(0);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  };
  const Numbers one = order(1, 1, 0, 1);
  ASSERT_EQ(one.size(), 21U);
  for (auto pass = one.begin(); pass != one.end(); pass += 7) EXPECT_EQ(std::set<int32_t>(pass, pass + 7).size(), 7U);
  EXPECT_FALSE(std::equal(one.begin(), one.begin() + 7, one.begin() + 7));
  EXPECT_EQ(order(1, 3, 0, 1), one);  // batches of three reach over the ends of passes
  EXPECT_NE(order(2, 1, 0, 1), one);
  const Numbers first = order(1, 3, 0, 2), second = order(1, 3, 1, 2);
  for (size_t b = 0; b < 7; ++b) {
    EXPECT_EQ(first[b], one[3 * b]);
    EXPECT_EQ(second[2 * b], one[3 * b + 1]);
    EXPECT_EQ(second[2 * b + 1], one[3 * b + 2]);
  }
}

// Of every block each part has its share; a part's samples come as often as each other, whatever order the places have.
TEST(SampleOrder, MixesByWeight) {
  SampleOrder order({100, 7}, {3, 1});
  EXPECT_EQ(order.share(0), 7500);
  EXPECT_EQ(order.share(1), 2500);
  for (const bool shuffled : {false, true}) {
    order.seed(5, shuffled);
    std::vector<int64_t> times[2] = {std::vector<int64_t>(100), std::vector<int64_t>(7)};
    int64_t longest = 0, same = 0;
    for (int64_t i = 0; i < 2 * SampleOrder::block; ++i) {
      const SamplePlace place = order.at(i);
      ++times[place.part].at(static_cast<size_t>(place.number));
      same = place.part == 1 ? same + 1 : 0;
      longest = std::max(longest, same);
    }
    for (const int64_t one : times[0]) EXPECT_EQ(one, 150);
    for (const int64_t one : times[1]) EXPECT_NEAR(one, 5000.0 / 7, 1);
    EXPECT_LT(longest, 15);  // chance alone makes runs of the rarer part: 20,000 / 4^15 of this length
  }
  SampleOrder other({100, 7}, {3, 1});
  other.seed(6, true);
  int64_t equal = 0;
  for (int64_t i = 0; i < 1000; ++i) equal += order.at(i).part == other.at(i).part ? 1 : 0;
  EXPECT_LT(equal, 750);
}

TEST(SampleOrder, KnowsWeightsThatAreTooSmall) {
  EXPECT_EQ(SampleOrder({5, 5}, {1, 1e-6}).share(1), 0);
  EXPECT_EQ(SampleOrder({5, 5, 5}, {1, 1, 1}).share(2), 3333);
}

// Every rank and every batch size see the same samples at the same places, and shifted copies go with their inputs.
TEST_F(BatchesTest, FilesAreMixedByWeight) {
  std::vector<uint16_t> first(301), second(61);
  std::iota(first.begin(), first.end(), 0);
  std::iota(second.begin(), second.end(), 1000);
  folder_.write("a.bin", first);
  folder_.write("b.bin", second);
  const RunFile run = parse(
      "{ token: {mix: [{file: a.bin, weight: 0.8}, {file: b.bin, weight: 0.2, to: 31}], type: u16, window: seq}, "
      "target: {of: token, shift: 1} }");
  const auto read = [&](int64_t batch, int which, int parts, bool shuffled) {
    Inputs inputs;
    inputs.tensors.reserve(2);
    inputs.add("token", Type::i32, {part("batch", batch, which, parts), dim("seq", 3)});
    inputs.add("target", Type::i32, {part("batch", batch, which, parts), dim("seq", 3)});
    Batches batches(inputs.tensors, info_, run, run.data, "data");
    batches.seed(1, shuffled);
    EXPECT_EQ(batches.samples(), 110);  // 100 and 10
    Numbers all;
    for (int64_t position = 0; position < 1200; position += batch) {
      batches.fill(position);
      const Numbers token = inputs.values<int32_t>(0), target = inputs.values<int32_t>(1);
      for (size_t i = 0; i < token.size(); ++i) EXPECT_EQ(target[i], token[i] + 1);
      for (size_t i = 0; i < token.size(); i += 3) all.push_back(token[i]);
    }
    return all;
  };
  for (const bool shuffled : {false, true}) {
    const Numbers one = read(1, 0, 1, shuffled);
    const auto from_second = std::count_if(one.begin(), one.end(), [](int32_t number) { return number >= 1000; });
    EXPECT_NEAR(static_cast<double>(from_second), 240, 45);  // three deviations
    EXPECT_EQ(*std::max_element(one.begin(), one.end()), 1027);
    EXPECT_EQ(read(12, 0, 1, shuffled), one);
    const Numbers low = read(12, 0, 2, shuffled), high = read(12, 1, 2, shuffled);
    for (size_t i = 0; i < one.size(); ++i) {
      const size_t within = i % 12, at = i / 12 * 6 + within % 6;
      EXPECT_EQ((within < 6 ? low : high)[at], one[i]);
    }
  }
}

TEST_F(BatchesTest, MistakesInMixturesHaveTheirLine) {
  write_npy_file("a.npy", {4});
  write_npy_file("b.npy", {5});
  Inputs inputs;
  inputs.tensors.reserve(2);
  inputs.add("x", Type::i32, {dim("batch", 2)});
  inputs.add("y", Type::i32, {dim("batch", 2)});
  const std::string mixed = "x: {mix: [{file: a.npy}, {file: b.npy}]}";
  const auto first_line = [&](const std::string& data) {
    const std::string all = error(inputs, "{ " + mixed + ", y: " + data + " }");
    return all.substr(0, all.find('\n'));
  };
  EXPECT_EQ(first_line("{file: a.npy}"), "`y` is read from 1 file, but `x` from 2");
  EXPECT_EQ(first_line("{mix: [{file: a.npy}, {file: a.npy}]}"), "`y` has 4 samples, but `x` has 5");
  EXPECT_EQ(first_line("{mix: [{file: a.npy, weight: 2}, {file: b.npy}]}"), "the weight is 2 here, but 1 for `x`");
  EXPECT_EQ(error(inputs, "{ x: {mix: [{file: a.npy, weight: 1e-9}, {file: b.npy}]}, y: {of: x} }"),
            "the weight 1e-09 is too small: not one of 10000 samples\n  --> run.yaml:1:41\n"
            "1 | data: { x: {mix: [{file: a.npy, weight: 1e-9}, {file: b.npy}]}, y: {of: x} }\n"
            "  |                                         ^^^^");
  inputs.tensors[1].dims = {dim("row", 9)};
  EXPECT_EQ(first_line("{mix: [{file: a.npy}, {file: b.npy}]}"), "`y` [row 9] cannot be read from a mixture");
}

TEST_F(BatchesTest, PartsOfAFileDoNotOverlap) {
  std::vector<uint16_t> numbers(200);
  std::iota(numbers.begin(), numbers.end(), 0);
  folder_.write("a.bin", numbers);
  Inputs inputs;
  inputs.add("token", Type::i32, {dim("batch", 1), dim("seq", 4)});
  const RunFile training = parse("{ token: {file: a.bin, type: u16, window: seq, to: 95%} }");
  const RunFile held_out = parse("{ token: {file: a.bin, type: u16, window: seq, from: 95%} }");
  const Batches first(inputs.tensors, info_, training, training.data, "data"),
      second(inputs.tensors, info_, held_out, held_out.data, "data");
  EXPECT_EQ(first.samples(), 47);  // 190 / 4
  EXPECT_EQ(second.samples(), 2);
  first.fill(46);
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{184, 185, 186, 187}));
  second.fill(0);
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{190, 191, 192, 193}));
  const RunFile counts = parse("{ token: {file: a.bin, type: u16, window: seq, from: 3, to: 8} }");
  const Batches third(inputs.tensors, info_, counts, counts.data, "data");
  EXPECT_EQ(third.samples(), 1);
  third.fill(5);
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{3, 4, 5, 6}));
}

TEST_F(BatchesTest, DimsAreMergedAndSplit) {
  write_npy_file("a.npy", {5, 2, 3});
  write_npy_file("b.npy", {5, 6});
  const RunFile run = parse("{ merged: {file: a.npy}, split: {file: b.npy} }");
  Inputs inputs;
  inputs.tensors.reserve(2);
  inputs.add("merged", Type::f32, {dim("batch", 2), dim("pixel", 6)});
  inputs.add("split", Type::i64, {dim("batch", 2), dim("row", 3), dim("column", 2)});
  const Batches batches(inputs.tensors, info_, run, run.data, "data");
  EXPECT_STREQ(batches.unit(), "samples");
  batches.fill(2);
  EXPECT_EQ(inputs.values<float>(0), (std::vector<float>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(inputs.values<int64_t>(1), (std::vector<int64_t>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}));
}

TEST_F(BatchesTest, MergesOrSplits) {
  using Sizes = std::vector<int64_t>;
  EXPECT_TRUE(merges_or_splits(Sizes{28, 28}, Sizes{784}));
  EXPECT_TRUE(merges_or_splits(Sizes{784}, Sizes{28, 28}));
  EXPECT_TRUE(merges_or_splits(Sizes{2, 3, 20}, Sizes{6, 4, 5}));
  EXPECT_TRUE(merges_or_splits(Sizes{1, 6, 1}, Sizes{6}));
  EXPECT_TRUE(merges_or_splits(Sizes{}, Sizes{1}));
  EXPECT_TRUE(merges_or_splits(Sizes{}, Sizes{}));
  EXPECT_FALSE(merges_or_splits(Sizes{4, 6}, Sizes{6, 4}));
  EXPECT_FALSE(merges_or_splits(Sizes{6}, Sizes{}));
  EXPECT_FALSE(merges_or_splits(Sizes{}, Sizes{6}));
  EXPECT_FALSE(merges_or_splits(Sizes{6}, Sizes{5}));
  EXPECT_FALSE(merges_or_splits(Sizes{6, 2}, Sizes{6}));
  EXPECT_FALSE(merges_or_splits(Sizes{0}, Sizes{6}));
}

// The parts of ranks, whichever dims are split, are the parts of what one rank alone reads.
TEST_F(BatchesTest, RanksReadTheirParts) {
  const std::vector<int64_t> sizes = {5, 4, 3};
  write_npy_file("a.npy", {7, 4, 3});
  const RunFile run = parse("{ x: {file: a.npy} }");
  const char* const names[] = {"batch", "row", "column"};
  for (const auto& parts : {std::vector<int>{1, 1, 1}, {3, 1, 1}, {1, 3, 1}, {1, 1, 2}, {2, 3, 2}, {6, 1, 1}}) {
    for (int64_t number = 0; number < 3; ++number) {
      std::map<std::vector<int64_t>, int32_t> seen;
      for (int i = 0; i < parts[0]; ++i)
        for (int j = 0; j < parts[1]; ++j)
          for (int k = 0; k < parts[2]; ++k) {
            Inputs inputs;
            const int which[] = {i, j, k};
            std::vector<LocalDim> dims(3);
            for (int d = 0; d < 3; ++d) dims[d] = part(names[d], sizes[d], which[d], parts[d]);
            inputs.add("x", Type::i32, dims);
            Batches(inputs.tensors, info_, run, run.data, "data").fill(number * 5);
            const Numbers values = inputs.values<int32_t>(0);
            size_t at = 0;
            for (int64_t a = dims[0].begin; a < dims[0].end; ++a)
              for (int64_t b = dims[1].begin; b < dims[1].end; ++b)
                for (int64_t c = dims[2].begin; c < dims[2].end; ++c) seen[{a, b, c}] = values[at++];
          }
      ASSERT_EQ(seen.size(), 60U);
      for (const auto& [index, value] : seen)
        EXPECT_EQ(value, ((number * 5 + index[0]) % 7 * 4 + index[1]) * 3 + index[2]);
    }
  }
}

TEST_F(BatchesTest, SamplesNeedNotBeTheFirstDim) {
  write_npy_file("a.npy", {4, 3});
  const RunFile run = parse("{ x: {file: a.npy} }");
  Inputs inputs;
  inputs.add("x", Type::i32, {dim("row", 3), dim("batch", 2)});
  Batches(inputs.tensors, info_, run, run.data, "data").fill(2);
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{6, 9, 7, 10, 8, 11}));
}

TEST_F(BatchesTest, InputsWithoutSamplesAreReadWhole) {
  write_npy_file("a.npy", {3, 2});
  const RunFile run = parse("{ x: {file: a.npy}, y: {file: a.npy, from: 1} }");
  Inputs inputs;
  inputs.tensors.reserve(2);
  inputs.add("x", Type::i32, {dim("row", 3), part("column", 2, 1, 2)});
  inputs.add("y", Type::i32, {dim("all", 4)});
  info_.sample_dims.clear();
  const Batches batches(inputs.tensors, info_, run, run.data, "data");
  batches.fill(5);
  EXPECT_EQ(batches.samples(), 0);
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{1, 3, 5}));
  EXPECT_EQ(inputs.values<int32_t>(1), (Numbers{2, 3, 4, 5}));
}

TEST_F(BatchesTest, LinesOfSeveralFilesAreSamples) {
  folder_.write("en.txt", "ab\nabcd\n\nabcdef\nx\n");
  folder_.write("fr.txt", "cd\nefg\nh\ni\njklm\n");
  Inputs inputs;
  inputs.tensors.reserve(3);
  inputs.add("src", Type::i32, {dim("batch", 2), dim("source", 4)}, 256);
  inputs.add("tgt", Type::i32, {dim("batch", 2), dim("target", 4)}, 256);
  inputs.add("label", Type::i32, {dim("batch", 2), part("target", 4, 1, 2)}, 256);
  const RunFile run =
      parse("{ src: {file: en.txt, pad: 0}, tgt: {file: fr.txt, start: 1}, label: {file: fr.txt, end: 2} }");
  const Batches batches(inputs.tensors, info_, run, run.data, "data");
  EXPECT_EQ(batches.samples(), 3);  // a line of the fourth is too long for `src`, one of the fifth for `tgt`
  EXPECT_EQ(batches.left_out(), 2);
  EXPECT_EQ(batches.units_per_batch(), 8);
  EXPECT_STREQ(batches.unit(), "tokens");
  batches.fill(2);  // the third, then the first again
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{0, 0, 0, 0, 'a', 'b', 0, 0}));
  EXPECT_EQ(inputs.values<int32_t>(1), (Numbers{1, 'h', 0, 0, 1, 'c', 'd', 0}));
  EXPECT_EQ(inputs.values<int32_t>(2), (Numbers{0, 0, 2, 0}));
  const RunFile part = parse(
      "{ src: {file: en.txt, pad: 0, from: 3, long: cut}, tgt: {file: fr.txt, start: 1, from: 3, long: cut}, "
      "label: {file: fr.txt, end: 2, from: 3, long: cut} }");
  const Batches cut(inputs.tensors, info_, part, part.data, "data");
  EXPECT_EQ(cut.samples(), 2);
  EXPECT_EQ(cut.left_out(), 0);
  cut.fill(0);
  EXPECT_EQ(inputs.values<int32_t>(0), (Numbers{'a', 'b', 'c', 'd', 'x', 0, 0, 0}));
  EXPECT_EQ(inputs.values<int32_t>(1), (Numbers{1, 'i', 0, 0, 1, 'j', 'k', 'l'}));
  EXPECT_EQ(inputs.values<int32_t>(2), (Numbers{0, 0, 'l', 'm'}));
}

TEST_F(BatchesTest, MistakesInLinesHaveTheirLine) {
  folder_.write("en.txt", "ab\nabcd\n");
  folder_.write("fr.txt", "cd\nefgh\ni\n");
  Inputs inputs;
  inputs.tensors.reserve(2);
  inputs.add("src", Type::i32, {dim("batch", 2), dim("source", 2)}, 256);
  inputs.add("label", Type::i32, {dim("batch", 2)}, 256);
  EXPECT_EQ(
      error(inputs, "{ src: {file: en.txt, pad: 0}, label: {file: fr.txt, end: 2} }"),
      "`label` [batch 2] cannot be read by lines\n  --> run.yaml:1:38\n"
      "1 | data: { src: {file: en.txt, pad: 0}, label: {file: fr.txt, end: 2} }\n"
      "  |                                      ^^^^^ a line is a sample, and fills the one dim beside the samples");
  EXPECT_EQ(error(inputs, "{ src: {file: en.txt, pad: 256} }"),
            "`src` takes an index below 256\n  --> run.yaml:1:34\n1 | data: { src: {file: en.txt, pad: 256} }\n"
            "  |                                  ^^^");
  inputs.tensors.pop_back();
  EXPECT_EQ(error(inputs, "{ src: {file: en.txt, pad: 0, from: 1} }"),
            "each of the 1 samples has a line that is longer than its input\n  --> run.yaml:1:9\n"
            "1 | data: { src: {file: en.txt, pad: 0, from: 1} }\n"
            "  |         ^^^ a longer dim, or `long: cut`, keeps them");
  inputs.add("tgt", Type::i32, {dim("batch", 2), dim("target", 4)}, 256);
  EXPECT_EQ(
      error(inputs, "{ src: {file: en.txt, pad: 0}, tgt: {file: fr.txt, start: 1} }"),
      "`tgt` has 3 samples, but `src` has 2\n  --> run.yaml:1:50\n"
      "1 | data: { src: {file: en.txt, pad: 0}, tgt: {file: fr.txt, start: 1} }\n"
      "  |                                                  ^^^^^^ line by line, every input needs the same number");
}

TEST_F(BatchesTest, ValidationOfOtherSamplesThanThoseOfAnInputThatItDoesNotName) {
  write_npy_file("a.npy", {10});
  Inputs inputs;
  inputs.tensors.reserve(2);
  inputs.add("x", Type::i32, {dim("batch", 2)});
  inputs.add("y", Type::i32, {dim("batch", 2)});
  const RunFile run = parse(
      "{ x: {file: a.npy, to: 80%}, y: {file: a.npy, to: 80%} }\n"
      "validation: { x: {from: 80%} }");
  EXPECT_EQ(
      folder_.without_folder(
          failure_of([&] { Batches(inputs.tensors, info_, run, run.validation.data, "validation"); })),
      "`y` has 8 samples, but `x` has 2\n  --> run.yaml:1:46\n"
      "1 | data: { x: {file: a.npy, to: 80%}, y: {file: a.npy, to: 80%} }\n"
      "  |                                              ^^^^^ every input needs the same number; `validation` does not "
      "name `y`, which is read as in `data`");
}

TEST_F(BatchesTest, MistakesHaveTheirLine) {
  folder_.write("a.txt", "abcdefgh");
  write_npy_file("a.npy", {4, 3});
  write_npy_file("b.npy", {5});
  Inputs inputs;
  inputs.tensors.reserve(2);
  inputs.add("token", Type::i32, {dim("batch", 2), dim("seq", 3)}, 102);
  inputs.add("label", Type::i32, {dim("batch", 2)});
  const struct {
    const char *data, *message;
  } cases[] = {
      {"{ token: {file: a.npy}, lable: {file: b.npy} }",
       "`Model` has no input `lable`\n  --> run.yaml:1:31\n1 | data: { token: {file: a.npy}, lable: {file: b.npy} }\n"
       "  |                               ^^^^^ did you mean `label`?"},
      {"{ token: {file: a.npy} }",
       "input `label` has no source: add `data: { label: {file: PATH} }` to the run file, or `data.label.file=PATH` to "
       "the command line"},
      {"{ token: {file: a.npy}, label: {file: b.npy} }",
       "`label` has 5 samples, but `token` has 4\n  --> run.yaml:1:45\n1 | data: { token: {file: a.npy}, label: {file: "
       "b.npy} }\n"
       "  |                                             ^^^^^ every input needs the same number"},
      {"{ token: {file: a.txt}, label: {file: b.npy} }",
       "`a.txt` has the shape [8], which does not fit `token` [batch 2, seq 3]\n  --> run.yaml:1:23\n"
       "1 | data: { token: {file: a.txt}, label: {file: b.npy} }\n  |                       ^^^^^ to cut it into "
       "windows, add `window: seq`"},
      {"{ token: {file: a.txt, window: time}, label: {file: b.npy} }",
       "`token` [batch 2, seq 3] cannot be read by windows along `time`\n  --> run.yaml:1:38\n"
       "1 | data: { token: {file: a.txt, window: time}, label: {file: b.npy} }\n"
       "  |                                      ^^^^ a window fills its first dim besides the samples, `seq`"},
      {"{ token: {file: a.npy}, label: {file: b.npy, window: batch} }",
       "`label` [batch 2] cannot be read by windows along `batch`\n  --> run.yaml:1:60\n"
       "1 | data: { token: {file: a.npy}, label: {file: b.npy, window: batch} }\n"
       "  |                                                            ^^^^^ it has no dim besides the samples"},
      {"{ token: {file: a.npy}, label: {file: a.npy} }",
       "`a.npy` has the shape [4, 3], which does not fit `label` [batch 2]\n  --> run.yaml:1:45\n"
       "1 | data: { token: {file: a.npy}, label: {file: a.npy} }\n  |                                             "
       "^^^^^ its first dim counts samples, as `batch` does, the first dim of the first input: each must be [], not "
       "[3]"},
      {"{ token: {file: a.txt, window: seq, from: 6}, label: {file: b.npy} }",
       "entries 6 to 8 of `a.txt` do not hold one sample of 3\n  --> run.yaml:1:23\n"
       "1 | data: { token: {file: a.txt, window: seq, from: 6}, label: {file: b.npy} }\n"
       "  |                       ^^^^^"},
      {"{ token: {file: a.txt, window: seq, to: 9}, label: {file: b.npy} }",
       "`a.txt` has only 8 entries\n  --> run.yaml:1:47\n1 | data: { token: {file: a.txt, window: seq, to: 9}, label: "
       "{file: b.npy} }\n"
       "  |                                               ^"},
      {"{ token: {file: a.txt, window: seq, from: 6, to: 4}, label: {file: b.npy} }",
       "the part of `a.txt` would end at 4, before it begins at 6\n  --> run.yaml:1:49\n"
       "1 | data: { token: {file: a.txt, window: seq, from: 6, to: 4}, label: {file: b.npy} }\n"
       "  |                                                 ^"},
      {"{ label: {file: b.npy, to: 2}, token: {file: a.txt, window: seq} }",
       "`a.txt`: number 5 is 102, but `token` takes an index below 102\n  --> run.yaml:1:52\n"
       "1 | data: { label: {file: b.npy, to: 2}, token: {file: a.txt, window: seq} }\n"
       "  |                                                    ^^^^^"},
      {"{ token: {file: a.txt, type: llm.c, window: seq}, label: {file: b.npy} }",
       "`a.txt` is not a token file of llm.c that can be read: it does not begin with 20240520 and a header of 1024 "
       "bytes\n  --> run.yaml:1:23\n1 | data: { token: {file: a.txt, type: llm.c, window: seq}, label: {file: b.npy} "
       "}\n"
       "  |                       ^^^^^"},
  };
  for (const auto& [data, message] : cases) {
    EXPECT_EQ(error(inputs, data), message) << data;
  }
}

// A step by micro-batches has two dims for the one that the spec knows, by those of replicas three.
TEST_F(BatchesTest, MicroBatchesAreToldAsPartsOfTheBatch) {
  write_npy_file("a.npy", {5, 3});
  info_.sample_dim = "batch";
  const auto told = [](const char* parts) {
    return fmt::format(
        "`a.npy` has the shape [5, 3], which does not fit `x` [batch {}, d 4]\n"
        "  --> run.yaml:1:19\n1 | data: {{ x: {{file: a.npy}} }}\n  |                   ^^^^^ its first dim counts "
        "samples, as `batch` does, the first dim of the first input: each must be [4], not [3]",
        parts);
  };
  info_.sample_dims = {"time", "micro_batch"};
  Inputs inputs;
  inputs.add("x", Type::i32, {dim("time", 2), dim("micro_batch", 3), dim("d", 4)});
  EXPECT_EQ(error(inputs, "{ x: {file: a.npy} }"), told("6, as 2 parts of 3"));
  info_.sample_dims = {"replica", "time", "micro_batch"};
  Inputs of_replicas;
  of_replicas.add("x", Type::i32, {dim("replica", 4), dim("time", 2), dim("micro_batch", 3), dim("d", 4)});
  EXPECT_EQ(error(of_replicas, "{ x: {file: a.npy} }"), told("24, as 4 x 2 parts of 3"));
}

}  // namespace
}  // namespace meshrt
