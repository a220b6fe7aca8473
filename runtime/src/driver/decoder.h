// decoder.h: a program that generates, as its rank 0 uses it: rank 0 says which tokens stand where, and reads what the
// model makes of them; the others follow.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "meshrt/program.h"
#include "meshrt/rank.h"

namespace meshrt {

/// Of the input that is continued. `given` is what an encoder reads, of an encoder-decoder.
struct DecoderShape {
  std::string input, given;  ///< the latter empty where there is none
  std::string batch;         ///< the dim that counts sequences; empty where there is one
  std::string along;         ///< the dim of positions
  bool learned = false;      ///< parameters have that dim: a trained model has no more positions
  int64_t sequences = 1, positions = 0, vocabulary = 0;
  std::string given_along;  ///< the dim of what is given
  int64_t given_positions = 0, given_vocabulary = 0;
  bool along_first = false;    ///< positions are the slower dim
  bool own_positions = false;  ///< each sequence stands at a position of its own, else all at one

  /// Throws Failure (Cause::usage) for a program that has other inputs than these.
  static DecoderShape of(const ProgramInfo&, std::span<const Tensor>);
  size_t at(size_t sequence, size_t position) const {
    return along_first ? position * static_cast<size_t>(sequences) + sequence
                       : sequence * static_cast<size_t>(positions) + position;
  }
};

/// What the model says of the token behind a position.
struct Next {
  double logprob = 0;  // nats
  bool likeliest = false;
};

/// Throws Failure (Cause::numeric): the model says nan.
[[noreturn]] void refuse_nan();

class Decoder {
 public:
  /// Of a bound program with its parameters.
  Decoder(Rank&, Program&, const StepInput&);
  const DecoderShape& shape() const { return shape_; }

  // ---- on rank 0
  /// New sequences, without tokens. `given`: [sequences, given positions], empty where the program has none.
  void begin(std::span<const int32_t> given);
  /// The element behind the last position may be set too: it is not read, but `next` tells of it.
  void set(size_t sequence, size_t position, int32_t token);
  /// So many first positions of each of the new sequences, whose tokens are set: all in one pass where the program can
  /// and that takes less time than one after the other. Of a program without own_positions the numbers are equal.
  void read_first(std::span<const size_t> positions);
  /// Seconds that all calls of `read_first` took.
  double seconds_of_prompts() const { return seconds_; }
  /// The model at a position of each sequence: equal ones of a program without own_positions. Every position before
  /// has been read.
  void read(std::span<const size_t> positions);
  /// [vocabulary], of its position that was read last.
  std::vector<double> logits(size_t sequence) const;
  /// What is said of the token behind a position that `read_first` has read.
  Next next(size_t sequence, size_t position) const { return next_[shape_.at(sequence, position)]; }
  /// Sequence i goes on as sequence from[i], which is given the same.
  void choose(std::span<const int32_t> from);
  /// Lets the others return.
  void end();

  // ---- on the others
  void follow();

 private:
  enum class Order : int64_t { begin, prompt, read, choose, end };
  void send(Order);
  void spread(std::vector<int32_t>&, const char* what);
  void begin_here();
  void prompt_here();
  void read_one_by_one(std::span<const size_t> positions);
  void read_here();
  void choose_here();
  bool one_pass_pays(size_t positions) const;
  void stand_at(std::span<const size_t> positions);
  void run(size_t entry);

  Rank& rank_;
  Program& program_;
  StepInput input_;
  DecoderShape shape_;
  size_t entry_;
  std::optional<size_t> prompt_entry_, begin_entry_, beams_entry_;
  std::span<const Tensor> tensors_;
  const Tensor *token_ = nullptr, *given_ = nullptr, *position_ = nullptr, *last_ = nullptr, *logits_ = nullptr;
  std::vector<int32_t> tokens_, behind_, given_tokens_, from_;  // behind_: of each position, the token after it
  std::vector<int32_t> positions_;                              // where each sequence stands
  std::vector<Next> next_;
  std::vector<std::byte> gathered_;  // the logits, on rank 0
  bool begun_ = false;               // what is given has been read
  double seconds_ = 0;
};

}  // namespace meshrt
