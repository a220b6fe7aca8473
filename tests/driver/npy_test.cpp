#include "meshrt/npy.h"

#include <cstring>

#include "test_files.h"

namespace meshrt {
namespace {

std::vector<std::byte> counting_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

// An npy file of version 1 with this header and data, as another program might write it.
std::string npy(std::string header, std::string_view data) {
  header += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + static_cast<char>(header.size() >> 8) +
         header + std::string(data);
}

TEST(Npy, ComesBackInEveryTypeAndShape) {
  const TestFolder folder;
  const std::vector<std::vector<int64_t>> shapes = {{}, {1}, {5}, {2, 3}, {0, 4}, {2, 1, 3, 2}};
  for (const Type type : {Type::f32, Type::f64, Type::bf16, Type::f16, Type::i32, Type::i64, Type::u8, Type::boolean})
    for (const auto& shape : shapes) {
      const Array array{type, shape, {}};
      const auto data = counting_bytes(array.elements() * size_of(type));
      write_npy(folder.path("a.npy"), type, shape, data);
      const Array back = read_npy(folder.path("a.npy"));
      EXPECT_EQ(back.type, type);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.data, data);
    }
}

TEST(Npy, WritesWhatNumpyWrites) {
  const TestFolder folder;
  const float values[] = {1, 2, 3};
  write_npy(folder.path("a.npy"), Type::f32, std::vector<int64_t>{3}, std::as_bytes(std::span(values)));
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  EXPECT_EQ(folder.read("a.npy"),
            npy(header + std::string(128 - 10 - 1 - header.size(), ' '), bytes_of<float>({1, 2, 3})));
}

TEST(Npy, ReadsFortranOrder) {
  const TestFolder folder;
  // [[1, 2, 3], [4, 5, 6]] column by column
  folder.write("f.npy", npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                            bytes_of<int32_t>({1, 4, 2, 5, 3, 6})));
  const Array array = read_npy(folder.path("f.npy"));
  std::vector<int32_t> values(6);
  std::memcpy(values.data(), array.data.data(), array.data.size());
  EXPECT_EQ(values, (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, ReadsVersionTwo) {
  const TestFolder folder;
  std::string file("\x93NUMPY\x02\0", 8);
  const std::string header = "{\"shape\": (1, 2), \"fortran_order\": False, \"descr\": \"|u1\"}\n";
  file += bytes_of<uint32_t>({static_cast<uint32_t>(header.size())}) + header + "ab";
  folder.write("v2.npy", file);
  EXPECT_EQ(read_npy(folder.path("v2.npy")).shape, (std::vector<int64_t>{1, 2}));
}

TEST(Npy, SaysWhatIsWrongWithAFile) {
  const TestFolder folder;
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", two = bytes_of<float>({1, 2});
  const struct {
    std::string content, message;
  } cases[] = {
      {"hello", "`x.npy` is not an npy file that can be read: it does not begin with \\x93NUMPY"},
      {std::string("\x93NUMPY\x01", 7), "`x.npy` is not an npy file that can be read: it ends within its header"},
      {std::string("\x93NUMPY\x09\0\x01\0 ", 11),
       "`x.npy` is not an npy file that can be read: it has version 9; 1 to 3 are known"},
      {std::string("\x93NUMPY\x01\0\xff\xff{", 11),
       "`x.npy` is not an npy file that can be read: it ends within its header"},
      {npy(good, two.substr(1)),
       "`x.npy` is not an npy file that can be read: its shape (2) needs 8 bytes, but it has 7"},
      {npy(good, two + "x"), "`x.npy` is not an npy file that can be read: its shape (2) needs 8 bytes, but it has 9"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2", two),
       "`x.npy` is not an npy file that can be read: its shape is damaged"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", two),
       "`x.npy` is not an npy file that can be read: its shape is damaged"},
      {npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", two),
       "`x.npy` is not an npy file that can be read: its header is damaged"},
      {npy("{'descr': '<f4', 'shape': (2,), }", two),
       "`x.npy` is not an npy file that can be read: its header lacks 'descr', 'fortran_order' or 'shape'"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", two),
       "`x.npy` is not an npy file that can be read: its header has an unexpected key 'descr'"},
      {npy("{'descr': '<f4", two), "`x.npy` is not an npy file that can be read: its header is damaged"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", two),
       "`x.npy` is not an npy file that can be read: it holds numbers of type '<c8'"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", two),
       "`x.npy` is not an npy file that can be read: it holds records of several fields, not plain numbers"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904, 4), }", two),
       "`x.npy` is not an npy file that can be read: its shape is larger than any file"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", two),
       "`x.npy` is big-endian; in NumPy, `x.astype(x.dtype.newbyteorder('<'))` converts it"},
      {npy("{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }", two),
       "`x.npy` holds u16 numbers, which no tensor has; in NumPy, `x.astype('int32')` converts them"},
  };
  for (const auto& [content, message] : cases) {
    folder.write("x.npy", content);
    EXPECT_EQ(folder.without_folder(failure_of([&] { read_npy(folder.path("x.npy")); })), message);
  }
  EXPECT_EQ(folder.without_folder(failure_of([&] { read_npy(folder.path("none.npy")); })),
            "cannot read `none.npy`: No such file or directory");
  EXPECT_EQ(folder.without_folder(failure_of([&] { write_npy(folder.path("no/where.npy"), Type::u8, {}, {}); })),
            "cannot write `no/where.npy`: No such file or directory");
}

}  // namespace
}  // namespace meshrt
