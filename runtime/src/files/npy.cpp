#include "meshrt/npy.h"

#include <fmt/format.h>

#include "files/file_bytes.h"
#include "files/npy_header.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

const char* npy_type(Type type) {
  switch (type) {
    case Type::f32: return "<f4";
    case Type::f64: return "<f8";
    case Type::bf16: return "<V2";
    case Type::f16: return "<f2";
    case Type::i32: return "<i4";
    case Type::i64: return "<i8";
    case Type::u8: return "|u1";
    case Type::boolean: return "|b1";
  }
  return "?";
}

}  // namespace

Array read_npy(const std::string& path) {
  const auto file = FileBytes::open(path);
  const NpyHeader header = read_npy_header(path, file->bytes());
  const std::optional<Type> type = type_of_number(header.encoding.number);
  if (!type)
    throw Failure(Cause::data, fmt::format("`{}` holds {} numbers, which no tensor has; in NumPy, `x.astype('int32')` "
                                           "converts them",
                                           path, name_of(header.encoding.number)));
  const size_t size = size_of(*type);
  if (header.encoding.big_endian && size > 1)
    throw Failure(Cause::data,
                  fmt::format("`{}` is big-endian; in NumPy, `x.astype(x.dtype.newbyteorder('<'))` converts it", path));
  const auto data = file->bytes().subspan(header.data_begin);
  Array array{*type, header.shape, {}};
  if (header.fortran_order) array.data = from_fortran_order(data, header.shape, size);
  else array.data.assign(data.begin(), data.end());
  return array;
}

void write_npy(const std::string& path, Type type, std::span<const int64_t> shape, std::span<const std::byte> data) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", npy_type(type),
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr size_t alignment = 64, before = 10;  // the numbers begin at a multiple of 64
  header.append(alignment - 1 - (before + header.size()) % alignment, ' ');
  header += '\n';
  std::string start = "\x93NUMPY\x01";
  start += '\0';
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(start)), data};
  write_file(path, parts);
}

}  // namespace meshrt
