// Token files of llm.c: 256 i32 of header (magic number, version, count of tokens, zeros), then u16 tokens.
#include <fmt/format.h>

#include <cstring>

#include "data/data_formats.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {
constexpr int32_t magic = 20240520;
constexpr size_t header_bytes = 256 * sizeof(int32_t);
}  // namespace

bool starts_llm_c(std::span<const std::byte> bytes) {
  int32_t first = 0;
  if (bytes.size() >= header_bytes) std::memcpy(&first, bytes.data(), sizeof first);
  return first == magic;
}

NumberFile read_llm_c(const FilePointer& file) {
  const auto fail = [&](const std::string& why) {
    throw Failure(Cause::data,
                  fmt::format("`{}` is not a token file of llm.c that can be read: {}", file->path(), why));
  };
  const auto bytes = file->bytes();
  if (!starts_llm_c(bytes))
    fail(fmt::format("it does not begin with {} and a header of {} bytes", magic, header_bytes));
  int32_t header[3];
  std::memcpy(header, bytes.data(), sizeof header);
  const int32_t version = header[1], count = header[2];
  if (version != 1) fail(fmt::format("it has version {}; 1 is known", version));
  const size_t left = bytes.size() - header_bytes;
  if (count < 0 || static_cast<size_t>(count) * sizeof(uint16_t) != left)
    fail(fmt::format("its header says {} tokens of 2 bytes, but {} bytes follow", count, left));
  return NumberFileMaker(*file).numbers({Number::u16, false}, {count}).at(file, bytes.subspan(header_bytes)).done();
}

}  // namespace meshrt
