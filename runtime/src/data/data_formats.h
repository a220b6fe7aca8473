// data_formats.h: the formats of data files. Each has a function that finds the array in a file's bytes; data_file.cpp
// chooses among them.
#pragma once
#include <memory>

#include "files/elements.h"
#include "files/file_bytes.h"
#include "meshrt/data.h"

namespace meshrt {

/// Lets the readers of formats build a NumberFile.
class NumberFileMaker {
 public:
  explicit NumberFileMaker(const FileBytes& file) { result_.path_ = file.path(); }
  NumberFileMaker& numbers(Encoding encoding, std::vector<int64_t> shape);
  NumberFileMaker& documents(int64_t count) {
    result_.documents_ = count;
    return *this;
  }
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

NumberFile read_megatron(const FilePointer& file);

/// What an index of Megatron says.
struct MegatronIndex {
  Number number;
  int64_t sequences, tokens;
  std::vector<int64_t> ends;  // of each document, in tokens from the beginning
};
/// Throws Failure (Cause::data) that names the file and the fault.
MegatronIndex read_megatron_index(const FileBytes& file);
/// The index and the numbers of which `path` is one.
std::pair<std::string, std::string> megatron_pair(const std::string& path);
/// `path`, or the index beside it where `path` is what both names begin with, as Megatron's own options name a pair.
std::string megatron_index_of(const std::string& path);

bool starts_megatron(std::span<const std::byte> bytes);
bool starts_llm_c(std::span<const std::byte> bytes);
bool starts_idx(std::span<const std::byte> bytes);

}  // namespace meshrt
