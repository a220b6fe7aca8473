// batches.h: fills the input tensors of a program, batch after batch, from the files that a run file names. Each rank
// reads only its part of a batch, so that all ranks together hold what one rank alone would.
//
// A file is an array [entries, ...]. Without a window an entry is a sample. With a window along a dim of size W, sample
// k is entries [k W, (k + 1) W), and of an input shifted by s entries [k W + s, (k + 1) W + s). In which order samples
// come, of one file or of a mixture of files, is in sample_order.h. Where lines are samples, those with a line that is
// too long for its input are left out.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/sample_order.h"
#include "files/line_file.h"
#include "meshrt/data.h"
#include "meshrt/failure.h"
#include "meshrt/program_info.h"
#include "meshrt/run_file.h"
#include "meshrt/tensor.h"

namespace meshrt {

class Batches {
 public:
  /// `sources` is run.data or run.validation.data, `section` its name. The tensors must outlive this object. Throws
  /// Failure (Cause::data), with the line of the run file, when an input has no source, a source no input, or file and
  /// input do not fit. `unread`: inputs that are left as they are, with or without a source.
  Batches(std::span<Tensor> tensors, const ProgramInfo& info, const RunFile& run, const std::vector<Source>& sources,
          const std::string& section, std::span<const std::string> unread = {});

  /// Throws where a source names no input, or, in `data`, no state.
  static void check_names(std::span<const Tensor> tensors, const ProgramInfo& info, const RunFile& run,
                          const std::vector<Source>& sources, const std::string& section);

  /// Throws where none of them is of the input.
  static const Source& source_of(const std::string& input, const std::vector<Source>& sources,
                                 const std::string& section);

  /// Samples in the files; 0 for a program without a sample dim (its inputs are read whole).
  int64_t samples() const { return samples_; }
  /// Samples left out because a line is longer than its input.
  int64_t left_out() const { return left_out_; }
  /// Samples in a batch, over all ranks.
  int64_t batch_size() const { return batch_size_; }
  /// Batches that need no sample twice.
  int64_t whole_batches() const { return batch_size_ == 0 ? 0 : samples_ / batch_size_; }
  /// Entries of files that a batch covers: tokens where there is a window, else samples; and their name.
  int64_t units_per_batch() const { return batch_size_ * window_; }
  const char* unit() const { return window_ > 1 ? "tokens" : "samples"; }
  /// The source that says that samples come from several files; nullptr where they come from one.
  const Source* mixture() const { return part_samples_.size() > 1 ? counted_ : nullptr; }
  /// "70 % of a.txt, 30 % of b.txt"
  std::string mixture_text() const;

  /// "`y.npy` [100, 1] is read as `y` [batch 16]", of each file whose entries have other dims than its input.
  std::vector<std::string> reshaped() const;

  /// What decides the order of samples. `shuffled`: every pass has an order of its own.
  void seed(uint64_t seed, bool shuffled) { order_.seed(seed, shuffled); }

  /// Bytes of this rank's part of a batch, all inputs one after the other.
  size_t bytes() const { return bytes_; }
  /// Reads this rank's part of the batch that begins at sample `position` to [to, to + bytes()). Samples are counted
  /// over the whole run. `distinct`: only so many samples are read, again and again. May run beside the program.
  void read(int64_t position, int64_t distinct, std::byte* to) const;
  /// Puts what read() gave into the input tensors.
  void put(const std::byte* from) const;
  /// The first number that is not finite in this rank's part of the batch that begins at sample `position`: "`x` reads
  /// nan from `train.npy`: number 12 ([3, 0])"; empty: there is none.
  std::string not_finite(int64_t position) const;
  /// Both at once: reads into the input tensors.
  void fill(int64_t position) const { fill(position, batch_size_); }
  void fill(int64_t position, int64_t distinct) const;
  /// Puts this rank's part of the files that name a state into it: what it begins from.
  void fill_state() const;
  bool fills_state(std::string_view path) const;

 private:
  // A file that an input is read from: sample k begins at element first + k * stride.
  struct Part {
    const FileSource* source = nullptr;  // what the run file says of it
    std::shared_ptr<const NumberArray> file;
    const LineFile* lines = nullptr;  // the file, where samples with lines that are too long are left out
    int64_t first = 0, stride = 0;
    bool reshaped = false;  // whether dims of its entries are merged or split
  };
  // One input and where its elements lie in its files.
  struct Feed {
    const Tensor* tensor;
    std::vector<Part> parts;
    int sample_position = -1;   // of the first sample dim among the tensor's dims; -1: read whole each time
    int sample_dims = 0;        // how many follow each other from there
    std::vector<int64_t> step;  // file elements from one index of a dim to the next; of the sample dim unused
    int64_t run = 1;            // elements that lie side by side in file and tensor
    size_t run_dims = 0;        // how many of the last dims a run covers whole or in part
    std::string reader;         // "`token`", for messages
    size_t place = 0;           // of its bytes in those of a batch
  };
  // A file of a source and the part of it that is read, in entries of its first dim.
  struct Opened {
    const FileSource* source;
    std::shared_ptr<const NumberArray> file;
    const LineFile* lines = nullptr;  // the file where its lines are samples
    int64_t begin = 0, end = 0;
  };

  static bool is_sample(const Feed& feed, size_t dim) {
    const int after = static_cast<int>(dim) - feed.sample_position;
    return after >= 0 && after < feed.sample_dims;
  }
  bool names(const Tensor& tensor) const;  // whether a source does
  const Source& source_of(const std::string& input) const { return source_of(input, sources_, section_); }
  Feed make_feed(const Tensor& tensor);
  Part make_part(const Feed& feed, const Source& source, const Opened& opened, int64_t window) const;
  // What `read` gives; should it fail, the message shows where the run file names the file.
  template <class Read>
  auto telling_place(const FileSource& source, Read read) const {
    try {
      return read();
    } catch (const Failure& failure) {
      throw Failure(failure.cause, run_.error(source.file.mark, failure.what()).what());
    }
  }
  int sample_position(const Tensor& tensor) const;  // -1: it is read whole
  std::vector<Opened> open(const Source& base) const;
  Opened open_part(const Source& base, const FileSource& source, const Tensor& tensor,
                   std::shared_ptr<const NumberArray> file) const;
  std::shared_ptr<const NumberArray> open_file(const Source& base, const FileSource& source,
                                               const Tensor& tensor) const;
  std::shared_ptr<const LineFile> open_lines(const Source& source, const Tensor& tensor) const;
  void leave_out_long_lines();
  void order_samples();
  int64_t place_of(int64_t sample) const { return kept_.empty() ? sample : kept_[sample]; }  // in the files
  int64_t window_size(const Source& source, const Tensor& tensor) const;
  void count_samples(const Source& base, const std::vector<Opened>& parts, int64_t window);
  void check_like_counted(const Source& base, const std::vector<int64_t>& samples, bool by_lines) const;
  int64_t samples_in(const Source& base, const Opened& opened, int64_t window) const;
  static void plan_reads(Feed& feed);
  template <class Visit>
  void for_each_run(const Feed& feed, int64_t position, int64_t distinct, Visit visit) const;
  void read(const Feed& feed, int64_t position, int64_t distinct, std::byte* to) const;

  std::span<Tensor> tensors_;
  const ProgramInfo& info_;
  const RunFile& run_;
  const std::vector<Source>& sources_;
  std::string section_;
  std::vector<Feed> feeds_, state_;
  const Source* counted_ = nullptr;    // the source that decided the number of samples
  std::vector<int64_t> part_samples_;  // in each file of a mixture
  int64_t samples_ = 0, batch_size_ = 0, window_ = 1, left_out_ = 0;
  SampleOrder order_;
  std::vector<int64_t> kept_;  // of the samples in the files, those that all fit; empty: all
  size_t bytes_ = 0;
};

/// "[batch 64, seq 128]"
std::string shape_of(const Tensor&, const ProgramInfo&);

/// Whether an array of sizes `file` becomes one of sizes `input` when neighbouring dims are merged or one is split.
bool merges_or_splits(std::span<const int64_t> file, std::span<const int64_t> input);

}  // namespace meshrt
