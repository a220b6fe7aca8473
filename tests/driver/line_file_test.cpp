#include "files/line_file.h"

#include "meshrt/tokenizer.h"
#include "test_files.h"

namespace meshrt {
namespace {

using Numbers = std::vector<int32_t>;

Numbers all_of(const LineFile& file, int64_t bound = -1) {
  Numbers numbers(file.shape()[0] * file.shape()[1]);
  file.read(0, static_cast<int64_t>(numbers.size()), Type::i32, bound, "`x`", numbers.data());
  return numbers;
}

TEST(LineFile, ALineIsAnEntryWithItsMarks) {
  const TestFolder folder;
  const std::string path = folder.write("a.txt", "abc\n\nde\r\nf");
  const auto plain = LineFile::open(path, "", {.pad = 7, .start = {}, .end = {}}, 4);
  EXPECT_EQ(plain->shape(), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(all_of(*plain), (Numbers{'a', 'b', 'c', 7, 7, 7, 7, 7, 'd', 'e', 7, 7, 'f', 7, 7, 7}));
  const auto started = LineFile::open(path, "", {.pad = 0, .start = 1, .end = {}}, 4);
  EXPECT_EQ(all_of(*started), (Numbers{1, 'a', 'b', 'c', 1, 0, 0, 0, 1, 'd', 'e', 0, 1, 'f', 0, 0}));
  const auto ended = LineFile::open(path, "", {.pad = 0, .start = {}, .end = 2}, 4);
  EXPECT_EQ(all_of(*ended), (Numbers{'a', 'b', 'c', 2, 2, 0, 0, 0, 'd', 'e', 2, 0, 'f', 2, 0, 0}));
  const auto both = LineFile::open(path, "", {.pad = 256, .start = 257, .end = 258}, 3);
  EXPECT_EQ(all_of(*both), (Numbers{257, 'a', 'b', 257, 258, 256, 257, 'd', 'e', 257, 'f', 258}));
}

TEST(LineFile, KnowsWhichLinesFit) {
  const TestFolder folder;
  const std::string path = folder.write("a.txt", "abc\nabcd\nabcde\n");
  const auto fitting = [&](const LineMarks& marks) {
    const auto file = LineFile::open(path, "", marks, 4);
    std::string result;
    for (int64_t line = 0; line < file->shape()[0]; ++line) result += file->fits(line) ? 'y' : 'n';
    return result;
  };
  EXPECT_EQ(fitting({.pad = 0, .start = {}, .end = {}}), "yyn");
  EXPECT_EQ(fitting({.pad = 0, .start = 1, .end = {}}), "ynn");
  EXPECT_EQ(fitting({.pad = 0, .start = {}, .end = 2}), "ynn");
  EXPECT_EQ(fitting({.pad = 0, .start = 1, .end = 2}), "nnn");
}

TEST(LineFile, PartsAreThoseOfTheWhole) {
  const TestFolder folder;
  const auto file =
      LineFile::open(folder.write_gz("a.txt.gz", "abc\nde\nfghij"), "", {.pad = 0, .start = 1, .end = 2}, 5);
  const Numbers all = all_of(*file);
  for (int64_t first = 0; first < 15; ++first)
    for (int64_t count = 0; count <= 15 - first; ++count) {
      Numbers part(count);
      file->read(first, count, Type::i32, -1, "`x`", part.data());
      EXPECT_EQ(part, Numbers(all.begin() + first, all.begin() + first + count));
    }
}

TEST(LineFile, SaysWhatIsWrongAndWhere) {
  const TestFolder folder;
  const auto problem = [&](std::string_view text, const LineMarks& marks, int64_t bound) {
    const std::string path = folder.write("x", text);
    return folder.without_folder(failure_of([&] { all_of(*LineFile::open(path, "", marks, 4), bound); }));
  };
  EXPECT_EQ(problem(std::string_view("ab\nc\0d\n", 7), {}, -1), "`x`, line 2 holds the byte 0, which is its `pad`");
  EXPECT_EQ(problem("ab\ncd\n\1e", {.pad = 0, .start = 1, .end = {}}, -1),
            "`x`, line 3 holds the byte 1, which is its `start`");
  EXPECT_EQ(problem("ab\n", {.pad = 0, .start = {}, .end = 'b'}, -1),
            "`x`, line 1 holds the byte 98, which is its `end`");
  EXPECT_EQ(problem("ab\na\xc3\xa9\n", {.pad = 0, .start = 1, .end = {}}, 128),
            "`x`, line 2: number 2 is 195, but `x` takes an index below 128");
}

TEST(LineFile, ALineIsThePiecesOfATokenizer) {
  const TestFolder folder;
  const std::string path = folder.write("a.txt", "the cat and the dog\n\nthe c\xc3\xa9\r\nx"), model = folder.path("m");
  train_tokenizer({path}, model, 280, "bpe");
  const auto pieces = Tokenizer::open(model);
  Numbers expected;
  const auto entry = [&](std::string_view line) {
    Numbers numbers = {1};
    EXPECT_FALSE(pieces->encode(line, numbers));
    numbers.push_back(2);
    numbers.resize(24, 0);
    expected.insert(expected.end(), numbers.begin(), numbers.end());
  };
  for (const char* line : {"the cat and the dog", "", "the c\xc3\xa9", "x"}) entry(line);
  const auto file = LineFile::open(path, model, {.pad = 0, .start = 1, .end = 2}, 24);
  EXPECT_EQ(file->shape(), (std::vector<int64_t>{4, 24}));
  EXPECT_EQ(all_of(*file), expected);
  EXPECT_TRUE(file->fits(0));
  EXPECT_FALSE(LineFile::open(path, model, {.pad = 0, .start = 1, .end = 2}, 3)->fits(0));
  const int32_t piece = expected[1];
  EXPECT_EQ(folder.without_folder(
                failure_of([&] { LineFile::open(path, model, {.pad = piece, .start = {}, .end = {}}, 24); })),
            "`a.txt`, line 1 holds the piece " + std::to_string(piece) + ", which is its `pad`");
}

}  // namespace
}  // namespace meshrt
