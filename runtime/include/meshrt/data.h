// data.h: files of numbers as one array each, whatever their format. The numbers stay in the file (mapped into memory)
// until they are read, and are converted and checked as they are read. Inputs of a program and `fetch --feed` come from
// these.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshrt/types.h"

namespace meshrt {

enum class Number : uint8_t;

/// The formats that the run file's `type` names.
enum class FileType {
  detect,  ///< by the first bytes (npy, llm.c, IDX, Megatron) or the name (.txt)
  bytes,   ///< text or anything else, one number 0 to 255 a byte
  u8,      ///< raw numbers, little-endian, without a header
  u16,
  i32,
  llm_c,  ///< 256 i32: 20240520, 1, count, ...; then count u16
  idx,    ///< MNIST's format: big-endian, shape in the header
  npy,
  megatron  ///< NAME.idx and NAME.bin: either may be named
};

/// "bytes", "u8", "u16", "i32", "llm.c", "idx", "npy", "megatron": as in the run file.
const std::vector<std::string>& file_type_names();
std::optional<FileType> file_type_named(std::string_view name);

/// An array [entries, ...] of numbers that a file gives.
class NumberArray {
 public:
  virtual ~NumberArray() = default;

  const std::string& path() const { return path_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  /// "number 12", and of an array of several dims "number 12 ([1, 2])"
  std::string place(int64_t element) const;

  /// Throws Failure (Cause::data) when numbers of this kind do not become `type` (floats to whole numbers).
  virtual void require(Type type, std::string_view reader) const = 0;

  /// out[0, count) = elements [first, first + count), row-major, as `type`. Throws Failure (Cause::data) that names the
  /// file, the place and the number when one does not fit, or lies outside [0, bound) where bound >= 0; `reader` is who
  /// wants it ("`token`").
  virtual void read(int64_t first, int64_t count, Type type, int64_t bound, std::string_view reader,
                    void* out) const = 0;

 protected:
  std::string path_;
  std::vector<int64_t> shape_;
};

/// An array whose numbers lie in a file one after the other.
class NumberFile final : public NumberArray {
 public:
  /// Files compressed with gzip are unpacked. Throws Failure (Cause::data) that names the file: unreadable, damaged, or
  /// of a format that cannot be told.
  static NumberFile open(const std::string& path, FileType type = FileType::detect);

  /// The numbers that a SentencePiece model gives for a text, line by line; all in memory.
  static NumberFile tokenized(const std::string& path, const std::string& tokenizer);

  FileType format() const { return format_; }
  /// Of Megatron's files: how many documents there are; -1 where the format does not say.
  int64_t documents() const { return documents_; }
  int64_t elements() const { return elements_; }
  /// "u16", "f32", ...
  const char* number_name() const;

  void require(Type type, std::string_view reader) const override;
  void read(int64_t first, int64_t count, Type type, int64_t bound, std::string_view reader, void* out) const override;

 private:
  friend class NumberFileMaker;

  std::shared_ptr<const void> keep_;  // what `bytes_` points into
  std::span<const std::byte> bytes_;
  FileType format_ = FileType::bytes;
  Number number_{};
  bool big_endian_ = false;
  int64_t elements_ = 0, documents_ = -1;
};

/// Of Megatron's files: up to which number each document goes. Empty where the format does not say.
std::vector<int64_t> document_ends(const NumberFile&);

}  // namespace meshrt
