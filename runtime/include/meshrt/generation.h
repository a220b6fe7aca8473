// generation.h: programs that write on from a prompt. They have the entry `generate`, which computes what comes after
// one position of a sequence; what earlier positions have left for it lies in tensors of Role::cache. Entries beside it
// fill these at once, and let a sequence go on from another's.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshrt/driver.h"
#include "meshrt/sampling.h"

namespace meshrt {

inline constexpr const char* generate_entry = "generate";
/// The same of all positions in one pass: what it leaves is as if each up to that of `position_input` had been one by
/// one. Its outputs: `logits` of that position, and of each the `logprob` of its `next_input`, and the `likeliest`.
inline constexpr const char* prompt_entry = "generate.prompt";
/// What is made of other inputs, an encoder's: before the first position, where prompt_entry is not called.
inline constexpr const char* begin_entry = "generate.begin";
/// What earlier positions have left: each sequence goes on from that of the sequence that `from_input` says.
inline constexpr const char* beams_entry = "generate.beams";
/// The inputs that no spec declares: which position it is, of each sequence its own where the input has their dim, and
/// the last of these; what comes next at each position; the sequences to go on from.
inline constexpr const char* position_input = "generate.position";
inline constexpr const char* last_input = "generate.last";
inline constexpr const char* next_input = "generate.next";
inline constexpr const char* from_input = "generate.from";

/// What `PROGRAM generate` and `PROGRAM score` are asked for.
struct GenerateRequest {
  std::vector<std::string> prompts;  ///< of score the texts: what is given, a tab, what is scored; or without a tab
  std::string file;                  ///< with a prompt or a text on each line, behind `prompts`; empty: none
  int64_t tokens = 0;                ///< how many to write; 0: as many as the model has positions
  Sampling sampling;
  bool greedy = false;             ///< always the likeliest
  int64_t beams = 0;               ///< the likeliest texts are searched for, by so many side by side; 0: not
  double length_penalty = 1;       ///< texts are compared by their log-likelihood over their length to this power
  std::string begin;               ///< how what is written begins
  std::vector<std::string> stops;  ///< a text that ends so is at its end
  std::vector<std::string> given;  ///< the options that were given, as on a command line: "--top-k=5"
};

/// An option that says something of a GenerateRequest.
struct GenerateOption {
  const char *name, *type, *meaning;  ///< "--top-k", "K" (empty: a flag), for --help
  bool repeats;                       ///< may be given several times
  /// Throws Failure (Cause::usage) for a value that makes no sense.
  void (*set)(GenerateRequest&, const std::string& value);
};
std::span<const GenerateOption> generate_options();
std::span<const GenerateOption> score_options();

/// Sets one of them, and notes it in `given`.
void set_option(GenerateRequest&, const GenerateOption&, const std::string& value);

/// Asks whoever sits at the terminal for a line to go on from, where none is given.
void ask_for_prompt(GenerateRequest&);

struct Prompt {
  std::string text;
  std::string place = {};  ///< for messages: "prompts.txt:3", of several options "--prompt 2"
};
/// With the lines of its file. Throws Failure: usage (nothing to go on from, options that exclude each other),
/// environment (the file cannot be read).
std::vector<Prompt> prompts_of(const GenerateRequest&);

/// Throws Failure, as `generate` would at its start, for prompts that do not fit the program.
void check_prompts(const ProgramInfo&, std::span<const Tensor>, const RunFile&, const GenerateRequest&);

/// A text whose likelihood is asked for.
struct TextToScore {
  std::string given, text;  ///< what stands before, not scored; then what is scored
  std::string place;        ///< where it was asked for, for messages: "texts.txt:3"
};
/// With the lines of its file. Throws Failure: usage (there are none, or one has nothing to score), environment (the
/// file cannot be read).
std::vector<TextToScore> texts_of(const GenerateRequest&);

/// Throws Failure (Cause::usage) for a program without the entry.
void check_generates(const ProgramInfo& info);

/// Throws Failure (Cause::usage) for a program that does nothing but generate.
void check_trains(const ProgramInfo& info);

/// Writes on from every prompt, in rounds of as many as the program has sequences; text and numbers are those of the
/// run file. Rank 0 prints what was written, one prompt's as it is written, or all as JSON. Collective. Throws Failure:
/// usage as above, data (a prompt that does not fit the model).
int generate(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, const GenerateRequest& request,
             bool json, const DriverOptions& options);

/// How likely the model says texts are, in nats: each of their elements behind those before it, and all together.
/// Rank 0 prints a line for each, or all as JSON. Of an encoder-decoder `given` is what the encoder reads, and the text
/// is whole: the mark behind it counts. Collective. Throws Failure as `generate`.
int score(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, const GenerateRequest& request,
          bool json, const DriverOptions& options);

}  // namespace meshrt
