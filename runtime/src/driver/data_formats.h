// data_formats.h: the formats of data files. Each has a function that finds the array in a file's bytes; data_file.cpp
// chooses among them.
#pragma once
#include <memory>

#include "driver/elements.h"
#include "driver/file_bytes.h"
#include "meshrt/data.h"

namespace meshrt {

/// Lets the readers of formats build a NumberFile.
class NumberFileMaker {
 public:
  explicit NumberFileMaker(const FileBytes& file) { result_.path_ = file.path(); }
  NumberFileMaker& numbers(Encoding encoding, std::vector<int64_t> shape);
  NumberFileMaker& at(std::shared_ptr<const void> keep, std::span<const std::byte> bytes);
  NumberFile done();

 private:
  NumberFile result_;
};

using FilePointer = std::shared_ptr<const FileBytes>;

NumberFile read_raw(const FilePointer& file, Number number);
NumberFile read_llm_c(const FilePointer& file);
NumberFile read_idx(const FilePointer& file);
NumberFile read_npy_numbers(const FilePointer& file);

bool starts_llm_c(std::span<const std::byte> bytes);
bool starts_idx(std::span<const std::byte> bytes);

}  // namespace meshrt
