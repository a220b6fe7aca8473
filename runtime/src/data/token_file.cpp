#include "meshrt/token_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "data/data_formats.h"
#include "files/file_bytes.h"
#include "meshrt/failure.h"
#include "meshrt/output_path.h"

namespace meshrt {

namespace {

/// What Megatron itself chooses.
constexpr int64_t megatron_u16_bound = 65500;
constexpr int64_t u16_bound = 65536;

size_t bytes_of(FileType type, int64_t bound) {
  switch (type) {
    case FileType::u8: return 1;
    case FileType::i32: return 4;
    case FileType::megatron: return bound < megatron_u16_bound ? 2 : 4;
    default: return 2;
  }
}

}  // namespace

TokenWriter::TokenWriter(const std::string& path, FileType type, int64_t bound)
    : path_(output_path(type == FileType::megatron ? megatron_pair(path).second : path)),
      type_(type),
      token_bytes_(bytes_of(type, bound)),
      bound_(bound) {
  if (token_bytes_ < 4 && bound > int64_t{1} << 8 * token_bytes_)
    throw Failure(Cause::usage,
                  fmt::format("tokens up to {} do not fit into {} byte{} each: use type {}i32 or megatron", bound - 1,
                              token_bytes_, token_bytes_ == 1 ? "" : "s", bound <= u16_bound ? "u16, llm.c, " : ""));
  file_.reset(std::fopen((path_ + ".unfinished").c_str(), "wb"));
  if (!file_) fail();
  if (type_ == FileType::llm_c) write_llm_c_header();
}

TokenWriter::~TokenWriter() {
  if (!file_) return;
  file_.reset();
  unlink((path_ + ".unfinished").c_str());
}

void TokenWriter::fail() const {
  throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path_, std::strerror(errno)));
}

void TokenWriter::write(const void* bytes, size_t count) {
  if (std::fwrite(bytes, 1, count, file_.get()) != count) fail();
}

void TokenWriter::write_llm_c_header() {
  std::array<int32_t, 256> header{20240520, 1, static_cast<int32_t>(tokens_)};
  write(header.data(), sizeof header);
}

void TokenWriter::add(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens)
    if (token < 0 || token >= bound_)
      throw Failure(Cause::data, fmt::format("token {} is not below {}", token, bound_));
  tokens_ += static_cast<int64_t>(tokens.size());
  length_ += static_cast<int64_t>(tokens.size());
  if (type_ == FileType::llm_c && tokens_ > INT32_MAX)
    throw Failure(Cause::data, "llm.c's format holds no more than 2147483647 tokens: use type u16 or megatron");
  if (type_ == FileType::megatron && length_ > INT32_MAX)
    throw Failure(Cause::data, "a document of Megatron holds no more than 2147483647 tokens");
  write_tokens(tokens);
}

void TokenWriter::end_document() {
  ++documents_;
  if (type_ == FileType::megatron) lengths_.push_back(static_cast<int32_t>(length_));
  length_ = 0;
}

void TokenWriter::write_tokens(std::span<const int32_t> tokens) {
  if (token_bytes_ == sizeof(int32_t)) return write(tokens.data(), tokens.size_bytes());
  std::vector<std::byte> narrow(tokens.size() * token_bytes_);  // the first bytes of a little-endian number
  for (size_t i = 0; i < tokens.size(); ++i) std::memcpy(&narrow[i * token_bytes_], &tokens[i], token_bytes_);
  write(narrow.data(), narrow.size());
}

void TokenWriter::write_megatron_index() const {
  std::string index("MMIDIDX\0\0", 9);
  const auto put = [&](const auto number) { index.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(uint64_t{1});
  put(static_cast<uint8_t>(token_bytes_ == 2 ? 8 : 4));
  put(static_cast<uint64_t>(documents_));
  put(static_cast<uint64_t>(documents_ + 1));
  for (const int32_t length : lengths_) put(length);
  int64_t begin = 0;
  for (const int32_t length : lengths_) {
    put(begin);
    begin += length * static_cast<int64_t>(token_bytes_);
  }
  for (int64_t document = 0; document <= documents_; ++document) put(document);
  const std::span<const std::byte> part = std::as_bytes(std::span(index));
  write_file(megatron_pair(path_).first, {&part, 1});
}

void TokenWriter::finish() {
  if (type_ == FileType::llm_c) {
    if (std::fseek(file_.get(), 0, SEEK_SET) != 0) fail();
    write_llm_c_header();
  }
  if (std::fclose(file_.release()) != 0 || std::rename((path_ + ".unfinished").c_str(), path_.c_str()) != 0) fail();
  files_ = {path_};
  if (type_ != FileType::megatron) return;
  write_megatron_index();
  files_.push_back(megatron_pair(path_).first);
}

}  // namespace meshrt
