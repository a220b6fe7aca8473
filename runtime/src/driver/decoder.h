// decoder.h: a program that generates, as its rank 0 uses it: rank 0 says which tokens stand where, and reads what the
// model makes of them; the others follow.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshrt/program.h"
#include "meshrt/rank.h"

namespace meshrt {

/// Of the input that is continued. `given` is what an encoder reads, of an encoder-decoder.
struct DecoderShape {
  std::string input, given;  ///< the latter empty where there is none
  int64_t sequences = 1, positions = 0, vocabulary = 0;
  int64_t given_positions = 0, given_vocabulary = 0;
  bool along_first = false;  ///< positions are the slower dim

  /// Throws Failure (Cause::usage) for a program that has other inputs than these.
  static DecoderShape of(const ProgramInfo&, std::span<const Tensor>);
  size_t at(size_t sequence, size_t position) const {
    return along_first ? position * static_cast<size_t>(sequences) + sequence
                       : sequence * static_cast<size_t>(positions) + position;
  }
};

class Decoder {
 public:
  /// Of a bound program with its parameters.
  Decoder(Rank&, Program&, const StepInput&);
  const DecoderShape& shape() const { return shape_; }

  // ---- on rank 0
  /// New sequences, without tokens. `given`: [sequences, given positions], empty where the program has none.
  void begin(std::span<const int32_t> given);
  void set(size_t sequence, size_t position, int32_t token) { tokens_[shape_.at(sequence, position)] = token; }
  /// The model at the position of all sequences. Every position before it has been read.
  void read(int64_t position);
  /// [vocabulary], of the position that was read last.
  std::vector<double> logits(size_t sequence) const;
  /// Lets the others return.
  void end();

  // ---- on the others
  void follow();

 private:
  enum class Order : int64_t { begin, read, end };
  void send(Order, int64_t position);
  void begin_here();
  void read_here(int64_t position);

  Rank& rank_;
  Program& program_;
  StepInput input_;
  DecoderShape shape_;
  size_t entry_;
  const Tensor *token_ = nullptr, *given_ = nullptr, *position_ = nullptr, *logits_ = nullptr;
  std::vector<int32_t> tokens_, given_tokens_;
  std::vector<std::byte> gathered_;  // the logits, on rank 0
};

}  // namespace meshrt
