// run_file.h: the YAML file that says what a run does: which files feed the inputs, how many steps, what is logged.
// Whatever may change without compiling again is here. Every value knows where it was written, so that a later mistake
// (an input that the program lacks, a shape that does not fit) is shown at its line.
//
//   data:       { token: {file: train.bin, type: u16, window: seq, to: 95%}, target: {of: token, shift: 1} }
//               src: {file: en.txt, pad: 0}, tgt: {file: fr.txt, start: 1}, label: {file: fr.txt, end: 2}   # by lines
//               token: {mix: [{file: web.bin, weight: 0.7}, {file: books.bin, weight: 0.3}], window: seq}
//   validation: { every: 250, steps: 20, token: {from: 95%} }
//   train:      { steps: 5000, seed: 1, shuffle: true, lr: 3.0e-4, timeout: 600, max_time: "23:50:00" }
//               params: [base.safetensors, adapter.safetensors], fresh: ["**.head"], stop: {patience: 5, metric: loss}
//   checkpoint: { dir: out/ckpt, every: 500, keep: 3, resume: auto, async: true, file_size: 5 GB }
//               best: {metric: accuracy, mode: max}
//   log:        { every: 10, mean: false, jsonl: out/metrics.jsonl, watch: [grad_norm], nonfinite: stop, profile: false
//   }
//               trace: {steps: 10..12, file: out/trace.json}
//   output:     { u: {every: 100, file: "out/u_{step}.npy"} }
//   run:        { dir: out/first }
//
// Files that are read are found relative to the run file's folder (on the command line: to the working directory);
// files that are written, relative to the working directory.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/data.h"
#include "meshrt/failure.h"

namespace meshrt {

/// A place in the run file or in one of the `key=value` of the command line: line and column count from 1.
struct Mark {
  int text = -1;  ///< 0: the file; k: the k-th override; -1: nowhere
  int line = 0, column = 0, length = 1;
  auto operator<=>(const Mark&) const = default;
};

/// A value and where it was written; `given()` is false for a default.
template <class T>
struct Given {
  T value{};
  Mark mark;
  bool given() const { return mark.text >= 0; }
};

/// A place along the first dim of a file: a number of entries, or a share of them.
struct Cut {
  int64_t count = 0;               ///< entries, or percent * scale where scale > 0
  int64_t scale = 0;               ///< "12.5%" is 125 and 10
  int64_t of(int64_t size) const;  ///< floor(size * percent / 100), or count
};

/// What becomes of a line that is longer than its input: its sample is left out, or the line is cut.
enum class LongLine { skip, cut };

/// A file, or a part of one, and in a mixture how often it is drawn from.
struct FileSource {
  Mark mark;                ///< of the input's name, or of the entry of a mixture
  Given<std::string> file;  ///< path, resolved; empty for `of` and `mix`
  Given<FileType> type;
  Given<std::string> tokenizer;  ///< path of a SentencePiece model: the file is text, and read as its numbers
  Given<Cut> from, to;           ///< part of the file along its first dim; the whole when not given
  Given<double> weight{1, {}};
};

/// Where an input's values come from: a part of a file, a mixture of several, or another input's files, shifted. `pad`,
/// `start` or `end` make every line of the file a sample.
struct Source : FileSource {
  std::string input;
  Mark mix;                         ///< of `mix`: nowhere without one
  std::vector<FileSource> mixture;  ///< in place of the one file
  std::span<const FileSource> files() const {
    return mixture.empty() ? std::span<const FileSource>(static_cast<const FileSource*>(this), 1)
                           : std::span<const FileSource>(mixture);
  }
  Given<std::string>
      window;  ///< the input's dim that a window of the file's first dim fills; empty: a sample is one entry
  Given<int64_t> pad, start, end;  ///< the numbers that fill a line up, stand before it and after it
  Given<LongLine> longer;
  bool by_lines() const { return pad.given() || start.given() || end.given(); }
  Given<std::string> of;  ///< name of the input whose file and part are read, `shift` entries later
  Given<int64_t> shift;
};

struct Validation {
  Mark mark;                 ///< nowhere: no validation
  Given<int64_t> every;      ///< steps; not given: once, after the last
  Given<int64_t> steps;      ///< batches; not given, or `whole: true`: all whole batches
  std::vector<Source> data;  ///< complete: what is not written is taken over from RunFile::data, but `from` and `to` of
                             ///< an input that is named
  bool given() const { return mark.text >= 0; }
};

/// A metric that evaluations are compared by.
struct Judged {
  Mark mark;                  ///< nowhere: they are not
  Given<std::string> metric;  ///< not given: the loss
  Given<bool> largest;        ///< whether the largest value is the best; not given, of the loss: the smallest
  bool given() const { return mark.text >= 0; }
};

/// What ends a run that gets no better.
struct Stop : Judged {
  Given<int64_t> patience;  ///< evaluations in succession that may be no better than the best
};

struct Train {
  Given<int64_t> steps;
  Given<uint64_t> seed{1, {}};
  Given<double> rate{-1, {}};  ///< in place of the spec's rate or its schedule's peak; negative: the spec's
  /// Safetensors files, or folders of them, with the parameters to begin with; none: the spec's initial values.
  std::vector<Given<std::string>> params;
  std::vector<Given<std::string>> fresh;  ///< paths and patterns of those that begin as the spec says all the same
  Given<std::string> names;               ///< file that says what the tensors are called in `params`
  Given<bool> partial{false, {}};         ///< whether `params` may lack tensors, or have others
  Given<bool> shuffle{false, {}};         ///< each pass over the samples in an order of its own
  Given<double> timeout{0, {}};           ///< seconds a rank waits for another; 0: the launcher's default
  Given<double> max_time{0, {}};          ///< seconds after which training ends; 0: never
  Stop stop;
};

struct Checkpoint {
  Mark mark;
  Given<std::string> folder;              ///< not given: none are written
  Given<int64_t> every;                   ///< steps; not given: only when the run ends
  Given<int64_t> keep{0, {}};             ///< the newest so many stay; 0: all
  Given<std::string> resume{"auto", {}};  ///< "auto": the latest of the folder, "never", or a path
  Given<bool> asynchronous{true, {}};     ///< written beside the steps, from a copy
  Given<int64_t> file_bytes{default_file_bytes, {}};
  Judged best;  ///< the checkpoint that stays, whatever `keep` says
};

/// What a loss that is not finite does: `stop` ends the run, `warn` is told once, `ignore` neither.
enum class Nonfinite { stop, warn, ignore };

/// Both included, counting from 1.
struct StepRange {
  int64_t first = 1, last = 0;
};

struct Logging {
  Given<int64_t> every{10, {}};
  Given<bool> mean{false, {}};  ///< a line tells means over the steps since the one before
  Given<std::string> jsonl;
  std::vector<Given<std::string>> watch;
  Nonfinite nonfinite = Nonfinite::stop;
  Given<bool> profile{false, {}};
  Given<StepRange> trace;         ///< steps of which a trace is written
  Given<std::string> trace_file;  ///< where to; not given: trace.json in the run's folder
};

struct Output {
  std::string name;
  Mark mark;
  Given<int64_t> every;
  Given<std::string> file;
};

struct RunFile {
  std::string path;  ///< as given, empty when there is none
  std::vector<Source> data;
  Validation validation;
  Train train;
  Checkpoint checkpoint;
  Logging log;
  std::vector<Output> outputs;
  Given<std::string> folder;  ///< of the run, "none" for none; not given: a counted one
  std::string written;        ///< the text again, with what the command line has changed
  std::string resolved;       ///< the same with paths from any folder
  std::shared_ptr<const class RunText> text;

  /// A mistake at `mark`: message, file:line:column, the line, and `label` under it (may be empty).
  Failure error(Mark mark, const std::string& message, const std::string& label = "") const;
};

/// Tells `train.steps=10` from a file's name; a name that holds a `=` is written with a `/` before it (`./a=b.yaml`).
bool is_override(std::string_view argument);

/// Whether the files that a run file names have to be there: a program may be built where its data is not.
enum class NamedFiles { must_exist, may_lack };

/// Reads the file at `path` (empty: no file) and applies `overrides` ("train.steps=10") in order. Throws one Failure
/// (Cause::data) that shows every mistake.
RunFile read_run_file(const std::string& path, const std::vector<std::string>& overrides = {},
                      NamedFiles files = NamedFiles::must_exist);

/// The same for a text: `name` stands in messages, files are found relative to `folder`.
RunFile parse_run_file(const std::string& name, const std::string& text, const std::string& folder,
                       const std::vector<std::string>& overrides = {}, NamedFiles files = NamedFiles::must_exist);

/// Throws a Failure (Cause::data) where the run file does not say how many steps to train.
void require_steps(const RunFile& run);

}  // namespace meshrt
