#include "meshrt/safetensors.h"

#include <nlohmann/json.hpp>
#include <random>

#include "test_files.h"

namespace meshrt {
namespace {

std::string safetensors(std::string_view header, std::string_view data) {
  return bytes_of<uint64_t>({header.size()}) + std::string(header) + std::string(data);
}

TEST(Safetensors, ComeBackInEveryType) {
  const TestFolder folder;
  std::vector<std::byte> bytes(100, std::byte{7});
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  std::vector<NamedArray> tensors;
  size_t at = 0;
  for (const Type type : {Type::f32, Type::f64, Type::bf16, Type::f16, Type::i32, Type::i64, Type::u8, Type::boolean}) {
    tensors.push_back(
        {std::string("layer.") + name_of(type), type, {2, 1}, std::span(bytes).subspan(at, 2 * size_of(type))});
    at += 2 * size_of(type);
  }
  tensors.push_back({"scalar", Type::f32, {}, std::span(bytes).subspan(at, 4)});
  tensors.push_back({"empty", Type::f32, {3, 0}, {}});
  write_safetensors(folder.path("x.safetensors"), tensors, {{"step", "12"}});
  const Safetensors back = Safetensors::open(folder.path("x.safetensors"));
  EXPECT_EQ(back.metadata().at("step"), "12");
  ASSERT_EQ(back.tensors().size(), tensors.size());
  for (const NamedArray& tensor : tensors) {
    const NamedArray* found = back.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->type, tensor.type);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(found->data, tensor.data)) << tensor.name;
  }
  EXPECT_EQ(back.find("none"), nullptr);
}

TEST(Safetensors, OtherFormatsAreCalledByTheirNames) {
  const TestFolder folder;
  const struct {
    const char* file;
    std::string content, what;
  } cases[] = {
      {"w.pt", "PK\x03\x04" + std::string(60, '\x14'), "a pickle of PyTorch: `safetensors.torch.save_file("},
      {"w.bin", "\x80\x02\x8a\x0al\xfc\x9c" + std::string(60, 'F'), "a pickle of PyTorch: `safetensors.torch"},
      {"w.npz", "PK\x03\x04" + std::string(60, '\x14'), "an archive of NumPy: `safetensors.numpy.save_file("},
      {"w.npy", "\x93NUMPY" + std::string(60, '\1'), "one array of NumPy: "},
      {"w.h5", "\x89HDF\r\n\x1a\n" + std::string(60, '\1'), "HDF5: "},
      {"w.gguf", "GGUF\x03" + std::string(60, '\0'), "GGUF, "},
  };
  for (const auto& [file, content, what] : cases) {
    folder.write(file, content);
    const std::string said = failure_of([&, name = file] { Safetensors::open(folder.path(name)); });
    EXPECT_TRUE(
        folder.without_folder(said).starts_with(std::string("`") + file + "` is no safetensors file but " + what))
        << said;
  }
  // Headers of 640 bytes begin as old pickles do.
  std::string header = "{}";
  header.resize(640, ' ');
  folder.write("x", bytes_of<uint64_t>({640}) + header);
  EXPECT_TRUE(Safetensors::open(folder.path("x")).tensors().empty());
}

TEST(Safetensors, RejectsBadHeaders) {
  const TestFolder folder;
  const std::string invalid = "`x` is not a valid safetensors file: ";
  const auto entry = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return "{\"a\":{\"dtype\":" + std::string(dtype) + ",\"shape\":" + std::string(shape) +
           ",\"data_offsets\":" + std::string(offsets) + "}}";
  };
  const std::string eight(8, '\1');
  const struct {
    std::string content, message;
  } cases[] = {
      {"abc", invalid + "it is shorter than its first number"},
      {bytes_of<uint64_t>({100}) + "{}", invalid + "its header would have 100 bytes, but the file has 10"},
      {bytes_of<uint64_t>({~uint64_t{0}}) + "{}",
       invalid + "its header would have 18446744073709551615 bytes, but the file has 10"},
      {safetensors("[1]", ""), invalid + "its header is not a JSON object"},
      {safetensors("{}", eight), invalid + "8 bytes at its end belong to no tensor"},
      {safetensors(R"({"a":1})", ""), "`x`: tensor `a`: its header needs `dtype`, `shape` and `data_offsets`"},
      {safetensors(entry("\"F8\"", "[8]", "[0,8]"), eight),
       "`x`: tensor `a`: its type \"F8\" is not one of F32, F64, BF16, F16, I32, I64, U8, BOOL"},
      {safetensors(entry("3", "[8]", "[0,8]"), eight),
       "`x`: tensor `a`: its type 3 is not one of F32, F64, BF16, F16, I32, I64, U8, BOOL"},
      {safetensors(entry("\"U8\"", "8", "[0,8]"), eight), "`x`: tensor `a`: its `shape` is not a list"},
      {safetensors(entry("\"U8\"", "[-8]", "[0,8]"), eight),
       "`x`: tensor `a`: its `shape` has an entry that is not a size"},
      {safetensors(entry("\"U8\"", "[8.5]", "[0,8]"), eight),
       "`x`: tensor `a`: its `shape` has an entry that is not a size"},
      {safetensors(entry("\"F32\"", "[4294967296,4294967296]", "[0,8]"), eight),
       "`x`: tensor `a`: its shape is larger than any file"},
      {safetensors(entry("\"U8\"", "[18446744073709551615]", "[0,8]"), eight),
       "`x`: tensor `a`: its shape is larger than any file"},
      {safetensors(entry("\"U8\"", "[8]", "[0]"), eight), "`x`: tensor `a`: its `data_offsets` are not two offsets"},
      {safetensors(entry("\"U8\"", "[8]", "[0,9]"), eight),
       "`x`: tensor `a`: bytes 0 to 9 do not lie within the 8 bytes of numbers"},
      {safetensors(entry("\"U8\"", "[8]", "[8,0]"), eight),
       "`x`: tensor `a`: bytes 8 to 0 do not lie within the 8 bytes of numbers"},
      {safetensors(entry("\"F32\"", "[1]", "[0,8]"), eight), "`x`: tensor `a`: 1 x f32 needs 4 bytes, but it has 8"},
      {safetensors(entry("\"U8\"", "[4]", "[4,8]"), eight),
       "`x`: tensor `a`: its numbers overlap others or leave a gap"},
      {safetensors(
           R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
           eight),
       "`x`: tensor `b`: its numbers overlap others or leave a gap"},
      {safetensors(R"({"a":{},"a":{}})", ""), invalid + "its header has `a` twice"},
      {safetensors(R"({"__metadata__":{"a":1}})", ""), invalid + "`__metadata__.a` is not a string"},
      {safetensors(std::string(1000, '['), ""), invalid + "its header is nested too deeply"},
  };
  for (const auto& [content, message] : cases) {
    folder.write("x", content);
    EXPECT_EQ(folder.without_folder(failure_of([&] { Safetensors::open(folder.path("x")); })), message);
  }
  folder.write("x", safetensors("{\"a", ""));
  EXPECT_NE(failure_of([&] { Safetensors::open(folder.path("x")); }).find("its header is not JSON"), std::string::npos);
}

// Every truncation and many changed bytes: rejected or read, never outside of the file (the sanitizers watch).
TEST(Safetensors, SurvivesDamage) {
  const TestFolder folder;
  const std::string good =
      safetensors(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", std::string(16, 'x'));
  const auto read = [&](const std::string& content) {
    folder.write("x", content);
    try {
      size_t sum = 0;
      for (const Safetensors file = Safetensors::open(folder.path("x")); const NamedArray& tensor : file.tensors())
        for (const std::byte byte : tensor.data) sum += std::to_integer<size_t>(byte);
      return sum;
    } catch (const Failure&) {
      return size_t{0};
    }
  };
  EXPECT_EQ(read(good), size_t{16} * 'x');
  for (size_t length = 0; length < good.size(); ++length) EXPECT_EQ(read(good.substr(0, length)), 0U);
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string bad = good;
    for (int changes = 0; changes < 3; ++changes) bad[random() % bad.size()] = static_cast<char>(random());
    read(bad);
  }
}

}  // namespace
}  // namespace meshrt
