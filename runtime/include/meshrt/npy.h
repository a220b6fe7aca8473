// npy.h: arrays in NumPy's file format. Written: version 1.0, little-endian, C order. Read: versions 1 to 3, C and
// Fortran order. bf16, which NumPy does not have, is written as two raw bytes ('<V2'), as JAX does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
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

/// An array that is written bit by bit. The file has its name when all of it is there. Every member throws Failure
/// (Cause::environment) that names the file and the reason.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, Type type, std::span<const int64_t> shape);
  NpyWriter(NpyWriter&&) = default;
  ~NpyWriter();
  /// The next elements, row-major.
  void add(std::span<const std::byte> elements);
  void finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void fail();
  std::string unfinished() const { return path_ + ".unfinished"; }
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// `data` holds the elements row-major. Throws Failure (Cause::environment) when the file cannot be written.
void write_npy(const std::string& path, Type type, std::span<const int64_t> shape, std::span<const std::byte> data);

}  // namespace meshrt
