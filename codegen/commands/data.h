// data.h: the actions of `meshc data`. Each prints to stdout and returns the exit code.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mesh {

struct DataOptions {
  std::string action;
  std::vector<std::string> files;
  std::string out;        // -o
  std::string type;       // of the file that is written; of show and pack, of those that are read: `from`
  std::string from;       // empty: by their first bytes
  std::string tokenizer;  // SentencePiece model; empty: bytes
  std::string documents = "file";
  std::string method = "unigram";
  int64_t vocabulary = 8000;
  std::optional<int64_t> end;  // what stands after a document; not given: the model's, if it has one
  bool no_end = false;
  bool unknown = false;  // what the model lacks becomes its unknown piece
  bool json = false;
};

int show_data(const DataOptions& options);
int tokenize_data(const DataOptions& options);
int pack_data(const DataOptions& options);
int train_data_tokenizer(const DataOptions& options);
int decode_data(const DataOptions& options);

/// `--end`, which is not negative, as a token; nothing where it is not given. UsageError for what no token can be.
std::optional<int32_t> end_marker(const DataOptions& options);

}  // namespace mesh
