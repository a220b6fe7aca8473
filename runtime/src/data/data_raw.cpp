// Numbers without a header: bytes of a text, or little-endian u8, u16 and i32.
#include <fmt/format.h>

#include "data/data_formats.h"
#include "meshrt/failure.h"

namespace meshrt {

NumberFile read_raw(const FilePointer& file, Number number) {
  const auto bytes = file->bytes();
  const size_t size = size_of(number);
  if (bytes.size() % size != 0)
    throw Failure(Cause::data, fmt::format("`{}` has {} bytes, which is not a whole number of {} ({} bytes each)",
                                           file->path(), bytes.size(), name_of(number), size));
  if (starts_llm_c(bytes) && number != Number::u8)
    throw Failure(Cause::data,
                  fmt::format("`{}` begins with a header of llm.c: read it with `type: llm.c`", file->path()));
  return NumberFileMaker(*file)
      .numbers({number, false}, {static_cast<int64_t>(bytes.size() / size)})
      .at(file, bytes)
      .done();
}

}  // namespace meshrt
