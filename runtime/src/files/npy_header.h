// npy_header.h: the header of an npy file: where its numbers begin and what they are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/elements.h"

namespace meshrt {

struct NpyHeader {
  Encoding encoding;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  size_t data_begin = 0;  ///< byte at which the numbers begin; all of them lie within the file
};

bool starts_npy(std::span<const std::byte> bytes);

/// Throws Failure (Cause::data) that names `path` and the fault.
NpyHeader read_npy_header(const std::string& path, std::span<const std::byte> bytes);

/// The elements of `size` bytes of an array of this shape, from Fortran order to C order.
std::vector<std::byte> from_fortran_order(std::span<const std::byte> data, std::span<const int64_t> shape, size_t size);

}  // namespace meshrt
