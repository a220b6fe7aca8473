#include "meshrt/rename_map.h"

#include <algorithm>

#include "test_files.h"

namespace meshrt {
namespace {

using Names = std::vector<std::string>;
using Sizes = std::vector<int64_t>;

class RenameMapTest : public testing::Test {
 protected:
  RenameMap read(const std::string& text) const { return RenameMap::read(folder_.write("names.yaml", text)); }
  std::string error(const std::string& text) const {
    const std::string all = folder_.without_folder(failure_of([&] { read(text); }));
    return all.substr(0, all.find('\n'));
  }
  static NamedArray array(const std::string& name, const Sizes& shape) {
    static const std::vector<float> numbers = [] {
      std::vector<float> made(1000);
      for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<float>(i);
      return made;
    }();
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return {name, Type::f32, shape, std::as_bytes(std::span(numbers)).first(static_cast<size_t>(count) * 4)};
  }
  TestFolder folder_;
};

TEST_F(RenameMapTest, CutsATensorIntoOneForEachIndexAndMergesDims) {
  const RenameMap map = read("w: h.{layer}.w.weight [embed, three * heads]\nb: h.{layer}.b\nv: v [a * b, c]\nu: u.u\n");
  const std::vector<NamedArray> parts = renamed(array("w", {2, 5, 3, 4}), map);
  ASSERT_EQ(parts.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(parts[i].name, "h." + std::to_string(i) + ".w.weight");
    EXPECT_EQ(parts[i].shape, (Sizes{5, 12}));
    EXPECT_EQ(reinterpret_cast<const float*>(parts[i].data.data())[0], static_cast<float>(60 * i));
    EXPECT_EQ(parts[i].data.size(), 240U);
  }
  EXPECT_EQ(renamed(array("b", {3}), map)[2].shape, Sizes{});
  EXPECT_EQ(renamed(array("v", {2, 3, 4}), map)[0].shape, (Sizes{6, 4}));
  EXPECT_EQ(renamed(array("u", {2, 3}), map)[0].name, "u.u");
  EXPECT_EQ(renamed(array("other", {2, 3}), map)[0].name, "other");
  EXPECT_EQ(failure_of([&] {
              renamed(array("v", {2, 3}), map);
            }),
            "`v`: the map gives it the dims a, b, c, it has 2 of them");
  EXPECT_EQ(failure_of([&] { renamed(array("b", {}), map); }),
            "`b`: the map gives it the dims layer, ..., it has 0 of them");
}

TEST_F(RenameMapTest, FindsWhatMakesUpATensor) {
  const RenameMap map = read("w: h.{layer}.w [embed, three * heads]\n");
  std::vector<NamedArray> file = {array("h.0.w", {5, 12}), array("h.1.w", {5, 12})};
  const auto find = [&](const std::string& name) -> const NamedArray* {
    const auto found = std::ranges::find(file, name, &NamedArray::name);
    return found == file.end() ? nullptr : &*found;
  };
  const auto pieces = [&](const Names& dims, const Sizes& sizes) { return pieces_of("w", dims, sizes, map, find); };
  const Names dims = {"layer", "embed", "three", "heads"};
  EXPECT_EQ(pieces(dims, {2, 5, 3, 4}).arrays.size(), 2U);
  const Pieces more = pieces(dims, {4, 5, 3, 4});
  EXPECT_EQ(more.missing, (Names{"h.2.w", "h.3.w"}));
  EXPECT_TRUE(more.arrays.empty());
  EXPECT_EQ(more.names.size(), 4U);
  EXPECT_EQ(pieces(dims, {2, 5, 3, 5}).misfit, "`h.0.w` is [5, 12] in the file and [5, 15] in the program");
  EXPECT_EQ(pieces({"layer", "embed", "heads", "three"}, {2, 5, 4, 3}).misfit,
            "`w`: the map gives it the dims layer, embed, three, heads, it has layer, embed, heads, three");
  file[1].type = Type::i32;
  EXPECT_EQ(pieces(dims, {2, 5, 3, 4}).misfit, "`h.1.w` is i32, but `h.0.w` is f32");
}

TEST_F(RenameMapTest, SaysWhatIsWrong) {
  EXPECT_EQ(error("w: h.{layer.w"), "braces hold the name of one dim");
  EXPECT_EQ(error("w: h.{a b}.w"), "braces hold the name of one dim");
  EXPECT_EQ(error("w: h.{a}.{b}"), "only the first dim can be in braces");
  EXPECT_EQ(error("w: h [a, b"), "`[` is not closed");
  EXPECT_EQ(error("w: h [a, ]"), "`` is not a dim");
  EXPECT_EQ(error("w: h [a + b]"), "`a + b` is not a dim");
  EXPECT_EQ(error("w: 'a b'"), "`a b` is not a name");
  EXPECT_EQ(error("w: h.{a}.w\nv: h.{b}.w"), "`h.{b}.w` is the name of `w` already");
}

}  // namespace
}  // namespace meshrt
