// IDX, the format of MNIST: 0, 0, a code for the type, the number of dims; a big-endian u32 for each size; the numbers,
// big-endian, row-major.
#include <fmt/format.h>

#include <optional>

#include "data/data_formats.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

std::optional<Number> idx_number(std::byte code) {
  switch (std::to_integer<int>(code)) {
    case 0x08: return Number::u8;
    case 0x09: return Number::i8;
    case 0x0b: return Number::i16;
    case 0x0c: return Number::i32;
    case 0x0d: return Number::f32;
    case 0x0e: return Number::f64;
    default: return std::nullopt;
  }
}

}  // namespace

bool starts_idx(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && bytes[0] == std::byte{0} && bytes[1] == std::byte{0} && idx_number(bytes[2]) &&
         bytes[3] != std::byte{0};
}

NumberFile read_idx(const FilePointer& file) {
  const auto fail = [&](const std::string& why) {
    throw Failure(Cause::data, fmt::format("`{}` is not an IDX file that can be read: {}", file->path(), why));
  };
  const auto bytes = file->bytes();
  if (!starts_idx(bytes)) fail("it does not begin with 0, 0, a type and a number of dims");
  const Number number = *idx_number(bytes[2]);
  const size_t dims = std::to_integer<size_t>(bytes[3]), header_bytes = 4 + 4 * dims;
  if (bytes.size() < header_bytes) fail("it ends within its header");
  const size_t left = bytes.size() - header_bytes;
  std::vector<int64_t> shape(dims);
  unsigned __int128 need = size_of(number);
  for (size_t d = 0; d < dims; ++d) {
    uint32_t size = 0;
    convert(bytes.data() + 4 + 4 * d, {Number::i32, true}, 1, Type::i32, -1, &size);
    shape[d] = size;
    need *= size;
    if (need > static_cast<uint64_t>(INT64_MAX)) fail("its shape is larger than any file");
  }
  if (need != left)
    fail(fmt::format("its shape ({}) needs {} bytes, but {} follow its header", fmt::join(shape, ", "),
                     static_cast<uint64_t>(need), left));
  return NumberFileMaker(*file).numbers({number, true}, std::move(shape)).at(file, bytes.subspan(header_bytes)).done();
}

}  // namespace meshrt
