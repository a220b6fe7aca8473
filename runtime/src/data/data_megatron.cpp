// Token files of Megatron-LM: `NAME.bin` holds the numbers of all sequences one after the other; `NAME.idx` says of
// what type they are, how long each sequence is, where it begins, and with which sequence each document begins. They
// are read as one row of numbers, as the other token files are.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "data/data_formats.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

constexpr std::string_view index_magic("MMIDIDX\0\0", 9);

std::optional<Number> megatron_number(uint8_t code) {
  switch (code) {
    case 1: return Number::u8;
    case 2: return Number::i8;
    case 3: return Number::i16;
    case 4: return Number::i32;
    case 5: return Number::i64;
    case 6: return Number::f64;
    case 7: return Number::f32;
    case 8: return Number::u16;
    default: return std::nullopt;
  }
}

/// Takes little-endian numbers off the front of the bytes.
class Header {
 public:
  Header(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  [[noreturn]] void fail(const std::string& why) const {
    throw Failure(Cause::data, fmt::format("`{}` is not an index of Megatron that can be read: {}", path_, why));
  }
  template <class T>
  T take() {
    T number;
    if (bytes_.size() < sizeof number) fail("it ends within its header");
    std::memcpy(&number, bytes_.data(), sizeof number);
    bytes_ = bytes_.subspan(sizeof number);
    return number;
  }
  template <class T>
  std::span<const std::byte> take_all(uint64_t count) {
    if (count > bytes_.size() / sizeof(T)) fail(fmt::format("it ends within one of its {} entries", count));
    const auto taken = bytes_.first(count * sizeof(T));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
};

template <class T>
T number_at(std::span<const std::byte> numbers, uint64_t index) {
  T number;
  std::memcpy(&number, numbers.data() + index * sizeof(T), sizeof(T));
  return number;
}

}  // namespace

bool starts_megatron(std::span<const std::byte> bytes) {
  return bytes.size() >= index_magic.size() && std::memcmp(bytes.data(), index_magic.data(), index_magic.size()) == 0;
}

MegatronIndex read_megatron_index(const FileBytes& file) {
  Header header(file.bytes(), file.path());
  if (!starts_megatron(file.bytes())) header.fail("it does not begin with MMIDIDX");
  header.take_all<char>(index_magic.size());
  const auto version = header.take<uint64_t>();
  if (version != 1) header.fail(fmt::format("it has version {}; 1 is known", version));
  const auto code = header.take<uint8_t>();
  const std::optional<Number> number = megatron_number(code);
  if (!number) header.fail(fmt::format("it has numbers of type {}; 1 to 8 are known", code));
  const auto sequences = header.take<uint64_t>(), marks = header.take<uint64_t>();
  const auto lengths = header.take_all<int32_t>(sequences), begins = header.take_all<int64_t>(sequences);
  const auto documents = header.take_all<int64_t>(marks);
  if (header.left() != 0 && header.left() != sequences)  // a byte of mode for each
    header.fail(fmt::format("{} bytes follow its last entry", header.left()));
  const auto size = static_cast<int64_t>(size_of(*number));
  int64_t tokens = 0;
  for (uint64_t i = 0; i < sequences; ++i) {
    const auto length = number_at<int32_t>(lengths, i);
    const auto begin = number_at<int64_t>(begins, i);
    if (length < 0) header.fail(fmt::format("sequence {} has a length of {}", i, length));
    if (begin != tokens * size)
      header.fail(fmt::format("sequence {} begins at byte {}, but those before it end at {}", i, begin, tokens * size));
    tokens += length;  // fewer than 2^31 * 2^60 / 4
  }
  int64_t before = 0;
  std::vector<int64_t> ends;
  for (uint64_t i = 0; i < marks; ++i) {
    const auto first = number_at<int64_t>(documents, i);
    if (first < before || first > static_cast<int64_t>(sequences) || (i == 0 && first != 0))
      header.fail(fmt::format("document {} begins with sequence {}", i, first));
    before = first;
    const auto sequence = static_cast<uint64_t>(first);
    if (i > 0) ends.push_back(sequence == sequences ? tokens : number_at<int64_t>(begins, sequence) / size);
  }
  return {*number, static_cast<int64_t>(sequences), tokens, std::move(ends)};
}

std::pair<std::string, std::string> megatron_pair(const std::string& path) {
  const std::filesystem::path named(path);
  const auto with = [&](const char* extension) {
    return std::filesystem::path(named).replace_extension(extension).string();
  };
  return {with(".idx"), with(".bin")};
}

std::string megatron_index_of(const std::string& path) {
  const std::string index = path + ".idx";
  return !std::filesystem::exists(path) && std::filesystem::exists(index) ? index : path;
}

std::vector<int64_t> document_ends(const NumberFile& file) {
  if (file.format() != FileType::megatron) return {};
  return read_megatron_index(*FileBytes::open(megatron_pair(file.path()).first, Compression::none)).ends;
}

NumberFile read_megatron(const FilePointer& file) {
  const auto [index_path, numbers_path] = megatron_pair(file->path());
  const bool is_index = starts_megatron(file->bytes());
  const MegatronIndex index = read_megatron_index(is_index ? *file : *FileBytes::open(index_path, Compression::none));
  const FilePointer numbers = is_index ? FileBytes::open(numbers_path, Compression::none) : file;
  const auto need = static_cast<unsigned __int128>(index.tokens) * size_of(index.number);
  if (need != numbers->bytes().size())
    throw Failure(Cause::data, fmt::format("`{}` has {} bytes, but `{}` says {} numbers of {}", numbers->path(),
                                           numbers->bytes().size(), index_path, index.tokens, name_of(index.number)));
  return NumberFileMaker(*numbers)
      .numbers({index.number, false}, {index.tokens})
      .documents(static_cast<int64_t>(index.ends.size()))
      .at(numbers, numbers->bytes())
      .done();
}

}  // namespace meshrt
