// npy.h: arrays in NumPy's file format. Written: version 1.0, little-endian, C order. Read: versions 1 to 3, C and
// Fortran order. bf16, which NumPy does not have, is written as two raw bytes ('<V2'), as JAX does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshrt/types.h"

namespace meshrt {

/// A whole array in memory, row-major.
struct Array {
  Type type = Type::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
  int64_t elements() const {
    int64_t n = 1;
    for (const int64_t size : shape) n *= size;
    return n;
  }
};

/// Throws Failure (Cause::data) that names the file and what is wrong with it: not an npy file, cut off, big-endian, or
/// numbers that no tensor has (u16, complex, text). `.npy.gz` is read too.
Array read_npy(const std::string& path);

/// `data` holds the elements row-major. Throws Failure (Cause::environment) when the file cannot be written.
void write_npy(const std::string& path, Type type, std::span<const int64_t> shape, std::span<const std::byte> data);

}  // namespace meshrt
