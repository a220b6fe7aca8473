// token_file.h: writes token files: documents one after the other in the formats that data.h reads.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "meshrt/data.h"

namespace meshrt {

class TokenWriter {
 public:
  /// `type`: u8, u16, i32, llm_c, or megatron, for which `path` is NAME.bin or NAME.idx. Tokens are below `bound`. The
  /// files have their names when they are finished; those that are there already stay until then. Throws Failure:
  /// (Cause::usage) when the type cannot hold the tokens, (Cause::environment) when a file cannot be written.
  TokenWriter(const std::string& path, FileType type, int64_t bound);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// Adds tokens to the present document, and ends it. Throws Failure (Cause::data) for tokens that the file cannot
  /// hold.
  void add(std::span<const int32_t> tokens);
  void end_document();
  void finish();

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }
  /// What was written, after finish().
  const std::vector<std::string>& files() const { return files_; }

 private:
  struct Closing {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write(const void* bytes, size_t count);
  void write_tokens(std::span<const int32_t> tokens);
  void write_llm_c_header();
  void write_megatron_index() const;
  [[noreturn]] void fail() const;

  std::string path_;
  FileType type_;
  size_t token_bytes_;
  int64_t bound_, tokens_ = 0, documents_ = 0;
  int64_t length_ = 0;            // of the present document
  std::vector<int32_t> lengths_;  // of all before it, for Megatron
  std::unique_ptr<std::FILE, Closing> file_;
  std::vector<std::string> files_;
};

}  // namespace meshrt
