#include <fmt/format.h>

#include <algorithm>

#include "data/data_formats.h"
#include "files/npy_header.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

FileType detect(const FileBytes& file) {
  const auto bytes = file.bytes();
  const std::string& path = file.path();
  if (path.ends_with(".txt") || path.ends_with(".txt.gz")) return FileType::bytes;
  if (starts_npy(bytes)) return FileType::npy;
  if (starts_llm_c(bytes)) return FileType::llm_c;
  if (starts_idx(bytes)) return FileType::idx;
  if (starts_megatron(bytes)) return FileType::megatron;
  if (path.ends_with(".npz"))
    throw Failure(Cause::data,
                  fmt::format("`{}` is an archive of arrays: save the one that is meant with `np.save`", path));
  throw Failure(Cause::data,
                fmt::format("cannot tell the format of `{}` by its first bytes: name it, by `type: TYPE` in a run "
                            "file, by `--from TYPE` for `meshc data`; the types are {}",
                            path, fmt::join(file_type_names(), ", ")));
}

}  // namespace

const std::vector<std::string>& file_type_names() {
  static const std::vector<std::string> names = {"bytes", "u8", "u16", "i32", "llm.c", "idx", "npy", "megatron"};
  return names;
}

std::optional<FileType> file_type_named(std::string_view name) {
  const auto& names = file_type_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<FileType>(found - names.begin() + 1);
}

namespace {

NumberFile read_as(FileType type, const FilePointer& file) {
  switch (type) {
    case FileType::u16: return read_raw(file, Number::u16);
    case FileType::i32: return read_raw(file, Number::i32);
    case FileType::llm_c: return read_llm_c(file);
    case FileType::idx: return read_idx(file);
    case FileType::npy: return read_npy_numbers(file);
    case FileType::megatron: return read_megatron(file);
    case FileType::bytes:
    case FileType::u8:
    case FileType::detect: break;
  }
  return read_raw(file, Number::u8);
}

}  // namespace

NumberFile NumberFile::open(const std::string& path, FileType type) {
  const bool prefix = type == FileType::megatron || type == FileType::detect;
  const FilePointer file = FileBytes::open(prefix ? megatron_index_of(path) : path);
  const FileType known = type == FileType::detect ? detect(*file) : type;
  NumberFile numbers = read_as(known, file);
  numbers.format_ = known;
  return numbers;
}

const char* NumberFile::number_name() const { return name_of(number_); }

void NumberFile::require(Type type, std::string_view reader) const {
  if (is_float(number_) && !is_float(type))
    throw Failure(Cause::data, fmt::format("`{}` holds {} numbers, but {} takes {}", path_, name_of(number_), reader,
                                           name_of(type)));
}

std::string NumberArray::place(int64_t element) const {
  if (shape_.size() < 2) return fmt::format("number {}", element);
  std::vector<int64_t> index(shape_.size());
  int64_t rest = element;
  for (size_t d = shape_.size(); d-- > 0; rest /= shape_[d]) index[d] = rest % shape_[d];
  return fmt::format("number {} ([{}])", element, fmt::join(index, ", "));
}

void NumberFile::read(int64_t first, int64_t count, Type type, int64_t bound, std::string_view reader,
                      void* out) const {
  if (first < 0 || count < 0 || count > elements_ - first)
    throw Failure(Cause::data, fmt::format("`{}` has {} numbers, but {} from number {} on are wanted", path_, elements_,
                                           count, first));
  const std::byte* from = bytes_.data() + first * size_of(number_);
  const auto misfit = convert(from, {number_, big_endian_}, count, type, bound, out);
  if (!misfit) return;
  const std::string range = bound >= 0 ? fmt::format("an index below {}", bound) : reach_of(type);
  throw Failure(Cause::data, fmt::format("`{}`: {} is {}, but {} takes {}", path_, place(first + misfit->index),
                                         misfit->number, reader, range));
}

NumberFileMaker& NumberFileMaker::numbers(Encoding encoding, std::vector<int64_t> shape) {
  result_.number_ = encoding.number;
  result_.big_endian_ = encoding.big_endian;
  result_.shape_ = std::move(shape);
  return *this;
}

NumberFileMaker& NumberFileMaker::at(std::shared_ptr<const void> keep, std::span<const std::byte> bytes) {
  result_.keep_ = std::move(keep);
  result_.bytes_ = bytes;
  return *this;
}

NumberFile NumberFileMaker::done() {
  result_.elements_ = static_cast<int64_t>(result_.bytes_.size() / size_of(result_.number_));
  return std::move(result_);
}

}  // namespace meshrt
