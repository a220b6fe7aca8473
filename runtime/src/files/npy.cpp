#include "meshrt/npy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "files/file_bytes.h"
#include "files/npy_header.h"
#include "meshrt/failure.h"
#include "meshrt/output_path.h"

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

NpyWriter::NpyWriter(const std::string& path, Type type, std::span<const int64_t> shape)
    : path_(output_path(path)), file_(std::fopen(unfinished().c_str(), "wb")) {
  if (file_ == nullptr) fail();
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
  add(std::as_bytes(std::span(start)));
}

NpyWriter::~NpyWriter() {
  if (file_ != nullptr) unlink(unfinished().c_str());
}

void NpyWriter::add(std::span<const std::byte> elements) {
  if (std::fwrite(elements.data(), 1, elements.size(), file_.get()) != elements.size()) fail();
}

void NpyWriter::finish() {
  if (std::fclose(file_.release()) != 0 || std::rename(unfinished().c_str(), path_.c_str()) != 0) fail();
}

void NpyWriter::fail() {
  const int reason = errno;
  unlink(unfinished().c_str());
  throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path_, std::strerror(reason)));
}

void write_npy(const std::string& path, Type type, std::span<const int64_t> shape, std::span<const std::byte> data) {
  NpyWriter file(path, type, shape);
  file.add(data);
  file.finish();
}

}  // namespace meshrt
