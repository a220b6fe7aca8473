#include <sys/stat.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>
#include <thread>

#include "files/elements.h"
#include "files/file_bytes.h"
#include "meshrt/data.h"
#include "meshrt/npy.h"
#include "test_files.h"

namespace meshrt {
namespace {

template <class T>
std::vector<T> all_of(const NumberFile& file, int64_t bound = -1) {
  std::vector<T> numbers(file.elements());
  file.read(0, file.elements(), type_of<T>, bound, "`x`", numbers.data());
  return numbers;
}

std::string idx_pictures() {  // 2 x 2 x 3 bytes, 0 to 11
  std::string file = std::string("\0\0\x08\x03", 4) + bytes_of<uint32_t>({2, 2, 3}, true);
  for (char c = 0; c < 12; ++c) file += c;
  return file;
}

std::string llm_c(int32_t magic, int32_t version, int32_t count, std::string_view tokens) {
  std::string header = bytes_of<int32_t>({magic, version, count});
  header.resize(1024);
  return header + std::string(tokens);
}

// Three sequences of 2, 0 and 1 numbers; documents of two and one.
std::string megatron_index(uint8_t code = 8, const std::vector<int32_t>& lengths = {2, 0, 1},
                           const std::vector<int64_t>& begins = {0, 4, 4},
                           const std::vector<int64_t>& documents = {0, 2, 3}) {
  std::string index = std::string("MMIDIDX\0\0", 9) + bytes_of<uint64_t>({1}) + static_cast<char>(code);
  index += bytes_of<uint64_t>({lengths.size(), documents.size()});
  const auto put = [&](const auto& numbers) {
    index.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers[0]);
  };
  put(lengths), put(begins), put(documents);
  return index;
}

TEST(DataFile, ReadsMegatronsPairs) {
  const TestFolder folder;
  folder.write("a.idx", megatron_index());
  folder.write("a.bin", bytes_of<uint16_t>({7, 50256, 9}));
  for (const NumberFile& file :
       {NumberFile::open(folder.path("a.idx")), NumberFile::open(folder.path("a.bin"), FileType::megatron),
        NumberFile::open(folder.path("a"), FileType::megatron), NumberFile::open(folder.path("a"))}) {
    EXPECT_EQ(all_of<int32_t>(file, 50257), (std::vector<int32_t>{7, 50256, 9}));
    EXPECT_EQ(file.documents(), 2);
    EXPECT_EQ(file.path(), folder.path("a.bin"));
  }
  folder.write("a.idx", megatron_index(4, {2, 1}, {0, 8}, {0, 2}) + "\1\1");  // with modes
  folder.write("a.bin", bytes_of<int32_t>({7, -1, 9}));
  EXPECT_EQ(all_of<int32_t>(NumberFile::open(folder.path("a.idx"))), (std::vector<int32_t>{7, -1, 9}));
}

TEST(DataFile, SaysWhatIsWrongWithMegatronsPairs) {
  const TestFolder folder;
  folder.write("a.bin", bytes_of<uint16_t>({7, 8, 9}));
  const auto open = [&](const std::string& index) {
    folder.write("a.idx", index);
    return folder.without_folder(failure_of([&] { NumberFile::open(folder.path("a.bin"), FileType::megatron); }));
  };
  const std::string bad = "`a.idx` is not an index of Megatron that can be read: ", good = megatron_index();
  EXPECT_EQ(open("abc"), bad + "it does not begin with MMIDIDX");
  EXPECT_EQ(open(good.substr(0, 12)), bad + "it ends within its header");
  EXPECT_EQ(open(good.substr(0, 9) + bytes_of<uint64_t>({2}) + good.substr(17)), bad + "it has version 2; 1 is known");
  EXPECT_EQ(open(megatron_index(9)), bad + "it has numbers of type 9; 1 to 8 are known");
  EXPECT_EQ(open(good.substr(0, 40)), bad + "it ends within one of its 3 entries");
  EXPECT_EQ(open(good.substr(0, 18) + bytes_of<uint64_t>({UINT64_MAX}) + good.substr(26)),
            bad + "it ends within one of its 18446744073709551615 entries");
  EXPECT_EQ(open(good + "x"), bad + "1 bytes follow its last entry");
  EXPECT_EQ(open(megatron_index(8, {2, -1, 1})), bad + "sequence 1 has a length of -1");
  EXPECT_EQ(open(megatron_index(8, {2, 0, 1}, {0, 4, 6})),
            bad + "sequence 2 begins at byte 6, but those before it end at 4");
  EXPECT_EQ(open(megatron_index(8, {2, 0, 1}, {0, 4, 4}, {0, 4})), bad + "document 1 begins with sequence 4");
  EXPECT_EQ(open(megatron_index(8, {2, 1, 1}, {0, 4, 6})), "`a.bin` has 6 bytes, but `a.idx` says 4 numbers of u16");
  folder.write("b.bin", "");
  EXPECT_EQ(folder.without_folder(failure_of([&] { NumberFile::open(folder.path("b.bin"), FileType::megatron); })),
            "cannot read `b.idx`: No such file or directory");
}

TEST(DataFile, ReadsTextAsBytes) {
  const TestFolder folder;
  const NumberFile file = NumberFile::open(folder.write("a.txt", "\x93NUMPY? \xff"));
  EXPECT_EQ(file.shape(), (std::vector<int64_t>{9}));
  EXPECT_EQ(all_of<int32_t>(file), (std::vector<int32_t>{0x93, 'N', 'U', 'M', 'P', 'Y', '?', ' ', 0xff}));
}

TEST(DataFile, ReadsRawNumbers) {
  const TestFolder folder;
  EXPECT_EQ(all_of<int32_t>(NumberFile::open(folder.write("a", bytes_of<uint16_t>({1, 65535})), FileType::u16)),
            (std::vector<int32_t>{1, 65535}));
  EXPECT_EQ(all_of<int32_t>(NumberFile::open(folder.write("a", bytes_of<uint8_t>({1, 255})), FileType::u8)),
            (std::vector<int32_t>{1, 255}));
  EXPECT_EQ(all_of<float>(NumberFile::open(folder.write("a", bytes_of<int32_t>({-1, 70000})), FileType::i32)),
            (std::vector<float>{-1, 70000}));
}

TEST(DataFile, ReadsTokensOfLlmC) {
  const TestFolder folder;
  const NumberFile file =
      NumberFile::open(folder.write("a.bin", llm_c(20240520, 1, 3, bytes_of<uint16_t>({7, 50256, 9}))));
  EXPECT_EQ(all_of<int32_t>(file, 50257), (std::vector<int32_t>{7, 50256, 9}));
}

TEST(DataFile, ReadsIdxPlainAndPacked) {
  const TestFolder folder;
  std::vector<uint8_t> expected(12);
  std::iota(expected.begin(), expected.end(), 0);
  for (const std::string& path :
       {folder.write("a-idx3-ubyte", idx_pictures()), folder.write_gz("a-idx3-ubyte.gz", idx_pictures())}) {
    const NumberFile file = NumberFile::open(path);
    EXPECT_EQ(file.shape(), (std::vector<int64_t>{2, 2, 3}));
    EXPECT_EQ(all_of<uint8_t>(file), expected);
  }
  const std::string floats =
      std::string("\0\0\x0d\x01", 4) + bytes_of<uint32_t>({2}, true) + bytes_of<float>({1.5F, -2}, true);
  EXPECT_EQ(all_of<float>(NumberFile::open(folder.write("f", floats))), (std::vector<float>{1.5F, -2}));
}

TEST(DataFile, ReadsSeveralGzipMembersAndLargeFiles) {
  const TestFolder folder;
  std::string large(3'000'000, 'a');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>('a' + i % 23);
  folder.write_gz("1.gz", large);
  folder.write_gz("2.gz", "tail");
  folder.write("both.txt.gz", folder.read("1.gz") + folder.read("2.gz"));
  const std::vector<uint8_t> numbers = all_of<uint8_t>(NumberFile::open(folder.path("both.txt.gz")));
  EXPECT_EQ(std::string(numbers.begin(), numbers.end()), large + "tail");
}

/// A text that packs to more than a megabyte.
std::string incompressible() {
  std::string text(3'000'000, 'a');
  uint64_t state = 1;
  for (char& c : text) {
    state = state * 6364136223846793005 + 1442695040888963407;
    c = static_cast<char>(state >> 56);
  }
  return text;
}

/// Opened once the folder for temporary files is `temporary`.
std::shared_ptr<const FileBytes> open_with(const std::string& path, const std::string& temporary) {
  setenv("TMPDIR", temporary.c_str(), 1);
  auto file = FileBytes::open(path);
  unsetenv("TMPDIR");
  return file;
}

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

std::string text_of(const FileBytes& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(DataFile, RanksUnpackALargeFileOnce) {
  const TestFolder folder, temporary;
  const std::string text = incompressible(), path = folder.write_gz("a.txt.gz", text), shared = temporary.path("");
  {
    const auto first = open_with(path, shared);
    const auto unpacked = std::filesystem::directory_iterator(shared)->path();
    const auto written = std::filesystem::last_write_time(unpacked);
    const auto second = open_with(path, shared);
    EXPECT_EQ(files_in(shared), 1);
    EXPECT_EQ(std::filesystem::last_write_time(unpacked), written);
    EXPECT_TRUE(text_of(*first) == text && text_of(*second) == text);
  }
  EXPECT_EQ(files_in(shared), 0);
}

TEST(DataFile, ThreadsThatOpenALargeFileAtOnceAllHaveIt) {
  const TestFolder folder, temporary;
  const std::string text = incompressible(), path = folder.write_gz("a.txt.gz", text);
  setenv("TMPDIR", temporary.path("").c_str(), 1);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  std::barrier all_have_it(6);  // each keeps it until then, as ranks do
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 5; ++turn) {
        const auto file = FileBytes::open(path);
        right += text_of(*file) == text;
        all_have_it.arrive_and_wait();
      }
    });
  for (std::thread& thread : threads) thread.join();
  unsetenv("TMPDIR");
  EXPECT_EQ(right, 30);
  EXPECT_EQ(files_in(temporary.path("")), 0);
}

// A rank that is killed leaves the file: whole, or a part of it.
TEST(DataFile, AnUnpackedFileThatWasLeftIsFoundOrWrittenAnew) {
  const TestFolder folder, temporary;
  const std::string text = incompressible(), path = folder.write_gz("a.txt.gz", text), shared = temporary.path("");
  for (const bool whole : {true, false}) {
    std::string name;
    {
      const auto file = open_with(path, shared);
      name = std::filesystem::directory_iterator(shared)->path();
      std::filesystem::copy_file(name, name + ".kept");
    }
    std::filesystem::rename(name + ".kept", name);
    if (!whole) {
      std::filesystem::resize_file(name, 1000);
      std::filesystem::permissions(name, std::filesystem::perms(0600));
    }
    EXPECT_TRUE(text_of(*open_with(path, shared)) == text) << whole;
    EXPECT_EQ(files_in(shared), 0);
  }
}

TEST(DataFile, WithoutRoomForTemporaryFilesALargeFileIsUnpackedInMemory) {
  const TestFolder folder;
  const std::string text = incompressible(), path = folder.write_gz("a.txt.gz", text);
  EXPECT_TRUE(text_of(*open_with(path, folder.path("none"))) == text);
  const std::string packed = folder.read("a.txt.gz"), cut = folder.write("cut.gz", packed.substr(0, packed.size() / 2));
  const TestFolder temporary;
  EXPECT_EQ(folder.without_folder(failure_of([&] { open_with(cut, temporary.path("")); })),
            "`cut.gz` is not a whole gzip file: it ends too early");
  unsetenv("TMPDIR");
  EXPECT_EQ(files_in(temporary.path("")), 0);
}

// In a process of its own: the fault ends it.
TEST(DataFileDeathTest, OneThatIsCutShortUnderItsReaderIsNamed) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const TestFolder folder;
  const std::string path = folder.write("cut.u8", std::string(1 << 16, 'a'));
  const auto cut_and_read = [&] {
    const NumberFile file = NumberFile::open(path, FileType::u8);
    std::filesystem::resize_file(path, 100);
    all_of<uint8_t>(file);
  };
  EXPECT_EXIT(cut_and_read(), testing::ExitedWithCode(exit_code(Cause::data)),
              "error: cannot read `.*/cut.u8` any more: it was cut short");
}

TEST(DataFile, ReadsNpyOfAnyNumber) {
  const TestFolder folder;
  const double values[] = {0.5, 2, 3};
  write_npy(folder.path("a.npy"), Type::f64, std::vector<int64_t>{3, 1}, std::as_bytes(std::span(values)));
  const NumberFile file = NumberFile::open(folder.path("a.npy"));
  EXPECT_EQ(file.shape(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(all_of<float>(file), (std::vector<float>{0.5F, 2, 3}));
  const std::string header = "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 2), }\n";
  const std::string start = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0';
  folder.write("b.npy", start + header + bytes_of<uint16_t>({1, 3, 2, 4}, true));
  EXPECT_EQ(all_of<int64_t>(NumberFile::open(folder.path("b.npy"))), (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(DataFile, RoundsToShortFloats) {
  const TestFolder folder;
  const float values[] = {1.0F, 1.00390625F, 3.0e38F, -0.1F};  // 1 + 2^-8 is halfway: to even
  write_npy(folder.path("a.npy"), Type::f32, std::vector<int64_t>{4}, std::as_bytes(std::span(values)));
  uint16_t rounded[4];
  NumberFile::open(folder.path("a.npy")).read(0, 4, Type::bf16, -1, "`x`", rounded);
  EXPECT_EQ(rounded[0], 0x3f80);
  EXPECT_EQ(rounded[1], 0x3f80);
  EXPECT_EQ(rounded[2], 0x7f62);
  EXPECT_EQ(rounded[3], 0xbdcd);
  NumberFile::open(folder.path("a.npy")).read(0, 2, Type::f16, -1, "`x`", rounded);
  EXPECT_EQ(rounded[0], 0x3c00);
  EXPECT_EQ(rounded[1], 0x3c04);
}

TEST(Elements, EveryF16ComesBackThroughF64) {
  std::vector<uint16_t> halves(65536), back(65536);
  std::iota(halves.begin(), halves.end(), 0);
  std::vector<double> wide(65536);
  const auto bytes = [](const auto& numbers) { return reinterpret_cast<const std::byte*>(numbers.data()); };
  EXPECT_FALSE(convert(bytes(halves), {Number::f16, false}, 65536, Type::f64, -1, wide.data()));
  EXPECT_FALSE(convert(bytes(wide), {Number::f64, false}, 65536, Type::f16, -1, back.data()));
  EXPECT_EQ(wide[0x3c00], 1);
  EXPECT_EQ(wide[0xc000], -2);
  EXPECT_EQ(wide[1], 0x1p-24);
  EXPECT_EQ(wide[0x7bff], 65504);
  for (int i = 0; i < 65536; ++i)
    if (!std::isnan(wide[i])) EXPECT_EQ(back[i], i);
    else EXPECT_EQ(back[i] & 0x7fff, 0x7e00);
  // Halves of the last step go to even.
  const std::vector<double> odd = {1 + 0x1p-11, 1 + 3 * 0x1p-11, 65519.9, 0x1p-25, 0x1.8p-24};
  EXPECT_FALSE(convert(bytes(odd), {Number::f64, false}, 5, Type::f16, -1, back.data()));
  EXPECT_EQ(std::vector<uint16_t>(back.begin(), back.begin() + 5),
            (std::vector<uint16_t>{0x3c00, 0x3c02, 0x7bff, 0, 2}));
}

TEST(Elements, FiniteNumbersMustNotBecomeInfinite) {
  const auto misfit = [](const std::vector<double>& numbers, Type type) {
    std::vector<double> to(numbers.size());
    const auto* from = reinterpret_cast<const std::byte*>(numbers.data());
    return convert(from, {Number::f64, false}, static_cast<int64_t>(to.size()), type, -1, to.data());
  };
  for (const auto& [type, beyond] : {std::pair(Type::f16, 65520.0), {Type::bf16, 0x1.ffp127}, {Type::f32, 1e39}})
    for (const double number : {beyond, -beyond}) {
      const auto found = misfit({1, number}, type);
      ASSERT_TRUE(found) << name_of(type);
      EXPECT_EQ(found->index, 1);
      EXPECT_EQ(std::stod(found->number), number);
    }
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Type type : {Type::f16, Type::bf16, Type::f32, Type::f64})
    EXPECT_FALSE(misfit({infinity, -infinity, std::nan(""), 65519}, type));
  EXPECT_FALSE(misfit({1e300}, Type::f64));
  const double large = 1e300;
  uint16_t rounded = 0;
  const auto* from = reinterpret_cast<const std::byte*>(&large);
  EXPECT_FALSE(convert(from, {Number::f64, false}, 1, Type::f16, -1, &rounded, Overflow::infinity));
  EXPECT_EQ(rounded, 0x7c00);
}

TEST(Elements, ShortFloatsAreRoundedOnce) {
  // In f32 all would be halves of the last step.
  const std::vector<double> of_f16 = {1 + 0x1p-11 + 0x1p-40, -(1 + 3 * 0x1p-11 - 0x1p-40), 0x1p-25 + 0x1p-60},
                            of_bf16 = {1 + 0x1p-8 + 0x1p-40, -(1 + 3 * 0x1p-8 - 0x1p-40), 0x1p-134 + 0x1p-170};
  const auto rounded = [](const std::vector<double>& numbers, Type type) {
    std::vector<uint16_t> to(numbers.size());
    const auto* from = reinterpret_cast<const std::byte*>(numbers.data());
    EXPECT_FALSE(convert(from, {Number::f64, false}, static_cast<int64_t>(to.size()), type, -1, to.data()));
    return to;
  };
  EXPECT_EQ(rounded(of_f16, Type::f16), (std::vector<uint16_t>{0x3c01, 0xbc01, 1}));
  EXPECT_EQ(rounded(of_bf16, Type::bf16), (std::vector<uint16_t>{0x3f81, 0xbf81, 1}));
}

TEST(DataFile, NamesTheNumberThatDoesNotFit) {
  const TestFolder folder;
  const auto read = [&](const NumberFile& file, Type type, int64_t bound) {
    std::vector<double> room(file.elements());
    return folder.without_folder(
        failure_of([&] { file.read(0, file.elements(), type, bound, "`token`", room.data()); }));
  };
  EXPECT_EQ(read(NumberFile::open(folder.write("a.txt", "ab\xe9")), Type::i32, 128),
            "`a.txt`: number 2 is 233, but `token` takes an index below 128");
  EXPECT_EQ(read(NumberFile::open(folder.write("a", bytes_of<int32_t>({5, -1})), FileType::i32), Type::i32, 10),
            "`a`: number 1 is -1, but `token` takes an index below 10");
  EXPECT_EQ(read(NumberFile::open(folder.write("a", bytes_of<uint16_t>({5, 256})), FileType::u16), Type::u8, -1),
            "`a`: number 1 is 256, but `token` takes u8");
  EXPECT_EQ(read(NumberFile::open(folder.write("a", std::string_view("\1\2", 2)), FileType::u8), Type::boolean, -1),
            "`a`: number 1 is 2, but `token` takes bool");
  EXPECT_EQ(read(NumberFile::open(folder.write("p", idx_pictures())), Type::i32, 7),
            "`p`: number 7 ([1, 0, 1]) is 7, but `token` takes an index below 7");
  const double large[] = {1, 70000};
  write_npy(folder.path("l.npy"), Type::f64, std::vector<int64_t>{2}, std::as_bytes(std::span(large)));
  EXPECT_EQ(read(NumberFile::open(folder.path("l.npy")), Type::f16, -1),
            "`l.npy`: number 1 is 70000, but `token` takes f16, up to 65504");
  const double values[] = {1, 2.5};
  write_npy(folder.path("a.npy"), Type::f64, std::vector<int64_t>{2}, std::as_bytes(std::span(values)));
  EXPECT_EQ(
      folder.without_folder(failure_of([&] { NumberFile::open(folder.path("a.npy")).require(Type::i32, "`token`"); })),
      "`a.npy` holds f64 numbers, but `token` takes i32");
}

TEST(DataFile, SaysWhatIsWrongWithAFile) {
  const TestFolder folder;
  const auto open = [&](std::string_view content, FileType type) {
    const std::string path = folder.write("x", content);
    return folder.without_folder(failure_of([&] { NumberFile::open(path, type); }));
  };
  EXPECT_EQ(
      open("abc", FileType::detect),
      "cannot tell the format of `x` by its first bytes: name it, by `type: TYPE` in a run file, by `--from TYPE` for "
      "`meshc data`; the types are bytes, u8, u16, i32, llm.c, idx, npy, megatron");
  EXPECT_EQ(open("abc", FileType::u16), "`x` has 3 bytes, which is not a whole number of u16 (2 bytes each)");
  EXPECT_EQ(open(llm_c(20240520, 1, 0, ""), FileType::u16),
            "`x` begins with a header of llm.c: read it with `type: llm.c`");
  EXPECT_EQ(
      open("abc", FileType::llm_c),
      "`x` is not a token file of llm.c that can be read: it does not begin with 20240520 and a header of 1024 bytes");
  EXPECT_EQ(open(llm_c(20240520, 7, 0, ""), FileType::llm_c),
            "`x` is not a token file of llm.c that can be read: it has version 7; 1 is known");
  EXPECT_EQ(
      open(llm_c(20240520, 1, 5, "ab"), FileType::llm_c),
      "`x` is not a token file of llm.c that can be read: its header says 5 tokens of 2 bytes, but 2 bytes follow");
  EXPECT_EQ(
      open(llm_c(20240520, 1, -1, "ab"), FileType::llm_c),
      "`x` is not a token file of llm.c that can be read: its header says -1 tokens of 2 bytes, but 2 bytes follow");
  EXPECT_EQ(open("abcd", FileType::idx),
            "`x` is not an IDX file that can be read: it does not begin with 0, 0, a type and a number of dims");
  EXPECT_EQ(open(idx_pictures().substr(0, 10), FileType::idx),
            "`x` is not an IDX file that can be read: it ends within its header");
  EXPECT_EQ(open(idx_pictures().substr(0, 27), FileType::idx),
            "`x` is not an IDX file that can be read: its shape (2, 2, 3) needs 12 bytes, but 11 follow its header");
  EXPECT_EQ(open(std::string("\0\0\x08\x03", 4) + std::string(12, '\xff'), FileType::idx),
            "`x` is not an IDX file that can be read: its shape is larger than any file");
  const std::string packed = folder.read("x").empty() ? "" : (folder.write_gz("g", idx_pictures()), folder.read("g"));
  EXPECT_EQ(open(packed.substr(0, packed.size() - 9), FileType::idx),
            "`x` is not a whole gzip file: it ends too early");
  std::string damaged = packed;
  damaged[packed.size() - 6] = static_cast<char>(damaged[packed.size() - 6] ^ 1);
  EXPECT_EQ(open(damaged, FileType::idx), "`x` is not a whole gzip file: incorrect data check");
  EXPECT_EQ(open(packed + "more", FileType::idx), "`x` is not a whole gzip file: something else stands behind its end");
  folder.write("zeros.gz", packed + std::string(100, '\0'));
  EXPECT_EQ(NumberFile::open(folder.path("zeros.gz"), FileType::idx).elements(), 12);
  EXPECT_EQ(folder.without_folder(failure_of([&] { NumberFile::open(folder.path("none")); })),
            "cannot read `none`: No such file or directory");
  EXPECT_EQ(folder.without_folder(failure_of([&] { NumberFile::open(folder.path(".")); })),
            "cannot read `.`: it is a folder");
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(folder.without_folder(failure_of([&] { NumberFile::open(folder.path("pipe")); })),
            "cannot read `pipe`: it is not a regular file");
}

}  // namespace
}  // namespace meshrt
