#include "files/npy_header.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "meshrt/failure.h"

namespace meshrt {

namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";

// The header is a Python dict of three known keys: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class NpyHeaderReader {
 public:
  NpyHeaderReader(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  void read(NpyHeader& header) {
    bool descr = false, order = false, shape = false;
    expect("{");
    while (!take("}")) {
      const std::string key(quoted());
      expect(":");
      if (key == "descr" && !descr) descr = true, header.encoding = encoding(quoted());
      else if (key == "fortran_order" && !order) order = true, header.fortran_order = boolean();
      else if (key == "shape" && !shape) shape = true, header.shape = sizes();
      else fail(fmt::format("its header has an unexpected key '{}'", key));
      if (!take(",") && (skip_space(), text_.substr(0, 1) != "}")) fail("its header is damaged");
    }
    if (!descr || !order || !shape) fail("its header lacks 'descr', 'fortran_order' or 'shape'");
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw Failure(Cause::data, fmt::format("`{}` is not an npy file that can be read: {}", path_, why));
  }

 private:
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t')) text_.remove_prefix(1);
  }
  bool take(std::string_view word) {
    skip_space();
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail("its header is damaged");
  }
  std::string_view quoted() {
    skip_space();
    if (text_.substr(0, 1) == "[") fail("it holds records of several fields, not plain numbers");
    const char quote = text_.empty() ? '\0' : text_[0];
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("its header is damaged");
    const std::string_view inside = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return inside;
  }
  bool boolean() {
    if (take("True")) return true;
    expect("False");
    return false;
  }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> shape;
    expect("(");
    while (!take(")")) {
      skip_space();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail("its shape is damaged");
      text_.remove_prefix(end - text_.data());
      shape.push_back(size);
      if (!take(",") && (skip_space(), text_.substr(0, 1) != ")")) fail("its shape is damaged");
    }
    return shape;
  }
  Encoding encoding(std::string_view descr) const {
    constexpr struct {
      std::string_view code;
      Number number;
    } codes[] = {{"b1", Number::boolean}, {"u1", Number::u8},  {"i1", Number::i8},   {"u2", Number::u16},
                 {"i2", Number::i16},     {"u4", Number::u32}, {"i4", Number::i32},  {"u8", Number::u64},
                 {"i8", Number::i64},     {"f2", Number::f16}, {"V2", Number::bf16}, {"f4", Number::f32},
                 {"f8", Number::f64}};
    const char order = descr.empty() ? '?' : descr[0];
    if (order == '<' || order == '>' || order == '|' || order == '=')
      for (const auto& [code, number] : codes)
        if (descr.substr(1) == code) return {number, order == '>'};
    fail(fmt::format("it holds numbers of type '{}'", descr));
  }

  const std::string& path_;
  std::string_view text_;
};

}  // namespace

bool starts_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= npy_magic.size() && std::memcmp(bytes.data(), npy_magic.data(), npy_magic.size()) == 0;
}

NpyHeader read_npy_header(const std::string& path, std::span<const std::byte> bytes) {
  const NpyHeaderReader whole(path, {});
  if (!starts_npy(bytes)) whole.fail("it does not begin with \\x93NUMPY");
  if (bytes.size() < 10) whole.fail("it ends within its header");
  const int version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3) whole.fail(fmt::format("it has version {}; 1 to 3 are known", version));
  const size_t length_bytes = version == 1 ? 2 : 4;
  size_t length = 0;
  if (bytes.size() >= 8 + length_bytes) std::memcpy(&length, bytes.data() + 8, length_bytes);
  NpyHeader header;
  header.data_begin = 8 + length_bytes + length;
  if (header.data_begin > bytes.size()) whole.fail("it ends within its header");
  NpyHeaderReader(path, {reinterpret_cast<const char*>(bytes.data()) + 8 + length_bytes, length}).read(header);

  const size_t left = bytes.size() - header.data_begin;
  __int128 need = static_cast<__int128>(size_of(header.encoding.number));
  header.elements = 1;
  for (const int64_t size : header.shape) {
    need *= size;
    header.elements = need > static_cast<__int128>(left) ? 0 : header.elements * size;
    if (need > static_cast<__int128>(INT64_MAX)) whole.fail("its shape is larger than any file");
  }
  if (need != static_cast<__int128>(left))
    whole.fail(fmt::format("its shape ({}) needs {} bytes, but it has {}", fmt::join(header.shape, ", "),
                           static_cast<int64_t>(need), left));
  return header;
}

std::vector<std::byte> from_fortran_order(std::span<const std::byte> data, std::span<const int64_t> shape,
                                          size_t size) {
  std::vector<std::byte> result(data.size());
  std::vector<int64_t> index(shape.size(), 0), stride(shape.size(), 1);
  for (size_t d = 1; d < shape.size(); ++d) stride[d] = stride[d - 1] * shape[d - 1];
  int64_t from = 0;
  for (size_t to = 0; to < data.size(); to += size) {
    std::memcpy(result.data() + to, data.data() + from * size, size);
    for (size_t d = shape.size(); d-- > 0;) {
      from += stride[d];
      if (++index[d] < shape[d]) break;
      from -= stride[d] * shape[d];
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace meshrt
