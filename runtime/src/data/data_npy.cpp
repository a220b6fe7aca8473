// npy files as data: any plain number, either byte order; Fortran order is turned into C order in memory.
#include "data/data_formats.h"
#include "files/npy_header.h"

namespace meshrt {

NumberFile read_npy_numbers(const FilePointer& file) {
  NpyHeader header = read_npy_header(file->path(), file->bytes());
  const auto data = file->bytes().subspan(header.data_begin);
  NumberFileMaker maker(*file);
  if (header.fortran_order) {
    auto turned = std::make_shared<const std::vector<std::byte>>(
        from_fortran_order(data, header.shape, size_of(header.encoding.number)));
    const std::span<const std::byte> bytes = *turned;
    maker.at(std::move(turned), bytes);
  } else {
    maker.at(file, data);
  }
  return maker.numbers(header.encoding, std::move(header.shape)).done();
}

}  // namespace meshrt
