// checkpoint.h: a run's state on disk, in a form that does not know how many ranks made it: whole tensors in
// safetensors files. A checkpoint is a folder:
//
//   out/ckpt/latest -> step-500              replaced last, when everything below is on disk
//   out/ckpt/best -> step-300                of the best evaluation, where the run file asks for it
//   out/ckpt/step-500/checkpoint.json        Manifest: step, data position, seed, sizes of files, hashes of tensors
//   out/ckpt/step-500/model-00001-of-00002.safetensors ...      parameters and state
//   out/ckpt/step-500/model.safetensors.index.json              which tensor is in which file, as Hugging Face writes
//   it out/ckpt/step-500/optimizer-00001-of-00001.safetensors, optimizer.safetensors.index.json
//
// A folder that is being written has another name (".step-500.RUN.unfinished", RUN drawn by chance) until it is whole.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshrt/safetensors.h"

namespace meshrt {

/// Where a run stands between two steps; with the tensors, all that it goes on from.
struct Moment {
  int64_t step = 0;      ///< steps done
  int64_t position = 0;  ///< samples read
  uint64_t seed = 1;     ///< of every random number, together with the step
  int64_t steps = 0;     ///< `train.steps`, where rates without steps of their own end; 0: not known
};

/// What tells a data file from another one of its name, without reading all of it.
struct DataFile {
  int64_t bytes = 0;
  uint64_t hash = 0;  ///< of its beginning, middle and end
  bool operator==(const DataFile&) const = default;
};

/// The best value of a metric among the evaluations of a run.
struct BestValue {
  std::string metric;
  bool largest = false;  ///< is the best; else the smallest
  double value = 0;
  int64_t step = -1;  ///< after which the evaluation was; -1: there is none yet
  int64_t since = 0;  ///< evaluations after that one
  bool operator==(const BestValue&) const = default;
};

/// What a run has seen of itself, and goes on with.
struct Course {
  int64_t evaluated = -1;              ///< step after which the last evaluation was; -1: there is none yet
  std::vector<BestValue> best;         ///< of each metric by which evaluations are compared
  int64_t unlogged = 0;                ///< steps since the last line of the log
  std::map<std::string, double> sums;  ///< of the metrics over these; empty where the log tells no means
  bool operator==(const Course&) const = default;
};

/// What a checkpoint is, beside its tensors.
struct Manifest {
  Moment moment;
  int64_t order =
      0;  ///< greater than that of the checkpoint which was the latest when this one was written; 0: not known
  Course course;
  std::string program, spec, spec_hash, layout, precision;
  std::vector<std::pair<std::string, int>> mesh;  ///< of the run that wrote it: axes and their sizes
  std::map<std::string, int64_t> files;           ///< safetensors file to its bytes
  std::map<std::string, uint64_t> hashes;         ///< tensor to hash_elements of the whole
  std::map<std::string, std::string> job;         ///< what started the run, to its name of the job: see driver/job.h
  double rate = 0;                                ///< learning rate, or the peak of its schedule; 0: not known
  std::string optimizer;                          ///< its name; empty: not known, as its settings
  std::map<std::string, double> settings;         ///< as ProgramInfo has them
  std::string data;                               ///< what the run reads, in words; empty: not known
  std::map<std::string, DataFile> data_files;     ///< "input: name" to the file; empty: not known
  std::map<std::string, std::vector<std::string>> dims;  ///< tensor to the names of its dims, where they are known
};

/// The place of a tensor in a checkpoint.
struct SavedShape {
  std::string name;
  Type type = Type::f32;
  std::vector<int64_t> shape;
  bool optimizer = false;  ///< stands in the files of the optimizer
  int64_t bytes() const;
};

/// Whole tensors on disk: a checkpoint, a folder of safetensors files of another origin, or one such file.
class SavedTensors {
 public:
  /// `path` may name a checkpoint, a folder of checkpoints (its latest is meant), a folder with a safetensors index or
  /// with `model.safetensors`, or a safetensors file. Every header and every size is checked here; the numbers are read
  /// when they are touched. Throws Failure (Cause::data) that names the file and the fault.
  static SavedTensors open(const std::string& path);
  /// The parameters and states of several, together: a base and what was trained beside it. A tensor that two of them
  /// have is a Failure that names both.
  static SavedTensors open(std::span<const std::string> paths);

  /// As it was given; of several, with commas.
  const std::string& path() const { return path_; }
  /// Model first, then optimizer; within each in the order of the files.
  const std::vector<NamedArray>& tensors() const { return tensors_; }
  const NamedArray* find(std::string_view name) const;
  /// Name of the file that holds the tensor, without folder.
  const std::string& file_of(std::string_view name) const;
  bool of_optimizer(std::string_view name) const;
  /// Nothing for files of another origin, and for several together.
  const std::optional<Manifest>& manifest() const { return manifest_; }
  /// The hash of a tensor, where a manifest gives it.
  std::optional<uint64_t> hash_of(std::string_view name) const;
  int64_t bytes() const;  ///< of all numbers

 private:
  struct Where {
    size_t tensor;
    std::string file;
    bool optimizer;
    std::optional<uint64_t> hash = {};
  };
  void add_file(const std::string& folder, const std::string& name, bool optimizer);
  void add_indexed(const std::string& folder, const std::string& index, bool optimizer);

  std::string path_;
  std::vector<Safetensors> files_;
  std::vector<NamedArray> tensors_;
  std::map<std::string, Where, std::less<>> where_;
  std::optional<Manifest> manifest_;
};

/// The sum, modulo 2^64, of a mix of place and bits of every element. Any rank may hash any part (`first` is the index
/// of its first element in the whole tensor, row-major); the sum over all parts tells whether a tensor has changed.
uint64_t hash_elements(std::span<const std::byte> elements, size_t element_size, int64_t first);

/// Whether a folder is a checkpoint of a run: it has a manifest.
bool is_checkpoint(const std::string& folder);

/// The tensors whose numbers do not have the hash that the manifest gives. None without a manifest.
std::vector<std::string> damaged_tensors(const SavedTensors& saved);

/// The numbers of a tensor as those of another type: floats are rounded, large ones to inf, whole numbers must fit.
/// Throws Failure (Cause::data) that names the tensor and the number that does not.
std::vector<std::byte> numbers_as(Type type, const NamedArray& tensor);

/// The checkpoints of a run.
class CheckpointFolder {
 public:
  /// `run` stands in the names of what this run has not finished, so that no other run writes there: hexadecimal
  /// digits.
  explicit CheckpointFolder(std::string path, std::string run = "") : path_(std::move(path)), run_(std::move(run)) {}

  const std::string& path() const { return path_; }
  std::string finished(int64_t step) const;    ///< "out/ckpt/step-500"
  std::string unfinished(int64_t step) const;  ///< "out/ckpt/.step-500.RUN.unfinished"
  std::string mark() const;                    ///< "out/ckpt/.shared.RUN.unfinished", a file: see shared_folder.h
  /// Steps of the published checkpoints, ascending.
  std::vector<int64_t> steps() const;
  /// Steps whose folders are no checkpoints, ascending: their manifest is gone.
  std::vector<int64_t> incomplete() const;
  /// What `best` points to; nothing when that is gone.
  std::optional<int64_t> best() const;
  /// What `latest` points to; should that be gone, what was written last: by the order in the manifests, which a copy
  /// of the folder keeps, then by their times. Nothing in an empty or missing folder.
  std::optional<int64_t> latest() const;
  /// The order of the checkpoint that is written next (Manifest::order).
  int64_t next_order() const;
  /// The step that `latest` points to although its checkpoint is gone.
  std::optional<int64_t> lost() const;
  /// Throws Failure (Cause::data) where `latest` points to a folder without a manifest, as a copy that was cut off
  /// leaves it: an older checkpoint is not what is meant.
  void require_whole_latest() const;

  /// Makes the folder. Throws Failure (Cause::environment), here and below.
  void make() const;
  /// Publishes what a run that died while it published has left: all of a checkpoint, but under none of its names. The
  /// folder is there, and nobody else writes into it, here and below.
  void recover() const;
  /// Takes away what interrupted runs have left unfinished.
  void prepare() const;
  /// Makes the unfinished checkpoint of `step`, all of it on disk, the latest; one of the same step is replaced.
  void publish(int64_t step) const;
  /// Throws Failure when the unfinished checkpoint of `step` is gone: another run has taken it away.
  void require_unfinished(int64_t step) const;
  /// Removes the unfinished checkpoint of `step`.
  void abandon(int64_t step) const;
  /// `best` points to the checkpoint of `step` from now on; to none, where that is not there.
  void mark_best(int64_t step) const;
  /// Writes anew what the checkpoint of `step` says of the course of its run.
  void amend(int64_t step, const Course& course) const;
  /// Removes the oldest checkpoints up to `step`, so that `count` of them stay, and the best one.
  void keep(int64_t count, int64_t step) const;

 private:
  std::optional<int64_t> pointed(const char* link) const;  // the step that it names
  std::vector<int64_t> step_folders(bool whole) const;     // with a manifest, or without
  std::string removed(int64_t step) const;                 // where one goes that makes room or is not kept
  std::string manifest_of(int64_t step) const;
  std::string hidden(const std::string& stem, std::string_view suffix) const;
  void move_in(const std::string& from, int64_t step) const;
  void point(const char* link, int64_t step) const;
  std::string path_, run_;
};

/// Bytes of a file of a checkpoint, if the run file does not say.
inline constexpr int64_t default_file_bytes = 5'000'000'000;

/// Writes whole tensors as the checkpoint folder `path`, which must not exist: files, indexes, and the manifest with
/// sizes and hashes filled in; when that fails, nothing of it stays. A tensor whose name is in `optimizer` goes to the
/// files of the optimizer.
void write_checkpoint(const std::string& path, std::span<const NamedArray> tensors,
                      const std::vector<std::string>& optimizer, Manifest manifest,
                      int64_t file_bytes = default_file_bytes);

}  // namespace meshrt
