// continuation.h: sequences that a model writes on, position by position: what is fed to the entry `generate`, and what
// becomes of its logits.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/commands/vocabulary.h"
#include "codegen/graph/graph.h"
#include "meshrt/npy.h"
#include "meshrt/sampling.h"

namespace mesh {

using Feeds = std::map<std::string, meshrt::Array>;

/// One prompt and what was written behind it.
struct Sequence {
  std::vector<int32_t> tokens;
  size_t prompt;                                  // so many of them
  std::vector<double> given = {}, logprobs = {};  // of the prompt behind its first element; of what was written
  bool ended = false;
  std::span<const int32_t> made() const { return std::span(tokens).subspan(prompt); }
};

/// Of the input that is continued: its sequences, and the positions of each.
struct Continued {
  std::string input, batch;  // the dim of the sequences; empty: there is one
  int64_t sequences = 1, positions = 0, vocabulary = 0;
  bool along_first = false;  // positions are the slower dim
  // Of an encoder-decoder the input that the prompts are; empty: they stand before what is generated.
  std::string given = {};
  int64_t given_positions = 0, given_vocabulary = 0;

  /// Throws meshrt::Failure (Cause::data) for inputs of other dims than these.
  explicit Continued(const Graph&);
  size_t at(size_t sequence, size_t position) const {
    return along_first ? position * static_cast<size_t>(sequences) + sequence
                       : sequence * static_cast<size_t>(positions) + position;
  }
};

struct WriteOptions {
  int64_t tokens = 0;  // 0: as many as there is room for
  meshrt::Sampling sampling = {};
  std::vector<std::string> stops = {};  // a text that ends so is at its end
  bool show = false;                    // one sequence, as it is written
};

class Writer {
 public:
  Writer(const WriteOptions&, const Vocabulary&, const Continued&, std::vector<Sequence>);

  Feeds feeds() const;
  /// After the step at a position: every sequence that stands there is longer by one. Whether any goes on.
  bool next(const meshrt::Array& logits, Feeds& feeds);
  const std::vector<Sequence>& sequences() const { return sequences_; }

 private:
  void extend(Sequence&, size_t number, const meshrt::Array& logits);
  void fill(Feeds& feeds) const;
  bool stops(const Sequence&) const;
  void show(const Sequence&);
  size_t wanted_of(const Sequence&) const;

  const WriteOptions& options_;
  const Vocabulary& vocabulary_;
  const Continued& of_;
  std::vector<Sequence> sequences_;
  size_t position_ = 0, shown_ = 0;
};

}  // namespace mesh
