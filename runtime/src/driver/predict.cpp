// Values of a model for every sample of its data.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/read_ahead.h"
#include "driver/files_read.h"
#include "driver/model_files.h"
#include "driver/read_once.h"
#include "driver/same_job.h"
#include "driver/start.h"
#include "meshrt/driver.h"
#include "meshrt/failure.h"
#include "meshrt/npy.h"
#include "meshrt/tensors_io.h"
#include "system/tell.h"

namespace meshrt {

namespace {

/// A value and, on rank 0, the file that it goes to.
class Predicted {
 public:
  Predicted(const Tensor& tensor, const std::string& sample_dim) : tensor_(tensor) {
    for (const LocalDim& dim : tensor.dims) {
      if (dim.name == sample_dim) {
        batch_ = dim.size;
        continue;
      }
      shape_.push_back(dim.size);
      (batch_ == 0 ? before_ : behind_) *= dim.size;
    }
    if (batch_ == 0) std::swap(before_, behind_);
  }

  std::string name() const { return tensor_.name.substr(std::strlen(predict_entry) + 1); }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::string& file() const { return file_; }
  Type type() const { return tensor_.type; }

  std::string path_in(const std::string& folder) const {
    return (std::filesystem::path(folder) / (name() + ".npy")).string();
  }
  void open(const std::string& folder, int64_t samples) {
    if (batch_ > 0) shape_.insert(shape_.begin(), samples);
    file_ = path_in(folder);
    writer_.emplace(file_, tensor_.type, shape_);
  }
  /// The first `samples` of the batch. Collective.
  void add(Rank& rank, int64_t samples) {
    const std::vector<std::byte> whole = gather_tensor(rank, tensor_);
    if (!writer_) return;
    const size_t run = static_cast<size_t>(behind_) * size_of(tensor_.type);
    if (before_ == 1)
      return writer_->add(std::span(whole).first(batch_ == 0 ? whole.size() : static_cast<size_t>(samples) * run));
    for (int64_t sample = 0; sample < samples; ++sample)
      for (int64_t i = 0; i < before_; ++i)
        writer_->add(std::span(whole).subspan(static_cast<size_t>(i * batch_ + sample) * run, run));
  }
  void finish() {
    if (writer_) writer_->finish();
  }

 private:
  const Tensor& tensor_;
  std::vector<int64_t> shape_;                   // of the file: samples first
  int64_t batch_ = 0, before_ = 1, behind_ = 1;  // samples of a batch, 0: it has none; elements of dims around them
  std::string file_;
  std::optional<NpyWriter> writer_;
};

std::vector<Predicted> predicted_values(Program& program, const std::string& sample_dim) {
  std::vector<Predicted> values;
  const std::string prefix = std::string(predict_entry) + ".";
  for (const Tensor& tensor : program.tensors())
    if (tensor.role == Role::output && tensor.name.starts_with(prefix)) values.emplace_back(tensor, sample_dim);
  return values;
}

void tell_predicted(const std::vector<Predicted>& values, int64_t samples, const LoadedModel& model, double seconds,
                    bool json, std::FILE* out) {
  if (json) {
    nlohmann::ordered_json listed = nlohmann::ordered_json::array();
    for (const Predicted& one : values)
      listed.push_back(
          {{"name", one.name()}, {"file", one.file()}, {"type", name_of(one.type())}, {"shape", one.shape()}});
    const nlohmann::ordered_json object = {{"schema", 1},          {"predicted", listed},       {"samples", samples},
                                           {"params", model.from}, {"step", model.moment.step}, {"seconds", seconds}};
    tell_on(out, "{}\n", object.dump(2));
    return;
  }
  for (const Predicted& one : values) tell_on(out, "{} [{}]\n", one.file(), fmt::join(one.shape(), ", "));
  tell_on(out, "{} samples in {:.1f} s{}\n", grouped(samples), seconds, origin_text(model));
}

void keep_what_is_read(const RunFile& run, const std::string& path) {
  if (const std::string key = key_that_reads(run, path); !key.empty())
    throw Failure(
        Cause::data,
        fmt::format("`{}` would be written over, which is read as `{}`: `--out` names another folder", path, key));
}

}  // namespace

void check_predicts(const ProgramInfo& info) {
  if (std::ranges::count(info.entries, predict_entry, &EntryInfo::name) > 0) return;
  throw Failure(Cause::usage,
                fmt::format("`{}` predicts nothing: `meshc build {} --predict NAME` compiles a program that does",
                            info.name, info.spec));
}

int predict(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, const std::string& folder,
            bool json, const DriverOptions& options) {
  check_predicts(program.info());
  const ProgramInfo info = as_entry_reads(program.info(), predict_entry);
  heed_timeout(rank, run);
  check_same_job(rank, info, run);
  prepare(rank, program);
  const std::unique_ptr<ProgressThread> progress = progress_thread(rank);
  const size_t entry = entry_of(info, predict_entry);
  const std::vector<Source> sources = read_whole(run.data);
  Batches batches(program.tensors(), info, run, sources, "data", info.entries[entry].unread);
  if (const Source* mixture = batches.mixture())
    throw run.error(mixture->mix, "a mixture has no end: of which samples are values wanted?",
                    fmt::format("`data.{}.file` names one file", mixture->input));
  if (batches.samples() == 0)
    throw Failure(Cause::usage, fmt::format("what is predicted reads no input with `{}`: of how many samples is it?",
                                            info.sample_dim));
  const LoadedModel model = load_model(rank, program, run, files);
  std::vector<Predicted> values = predicted_values(program, info.sample_dim);
  const auto start = std::chrono::steady_clock::now();
  if (rank.rank() == 0) {
    if (!model.note.empty()) tell("note: {}\n", model.note);
    if (batches.left_out() > 0)
      tell("note: {} samples are left out, with a line longer than its input (`long: cut` cuts them)\n",
           grouped(batches.left_out()));
    std::error_code ignored;  // the files tell what is wrong
    std::filesystem::create_directories(folder, ignored);
    for (const Predicted& one : values) keep_what_is_read(run, one.path_in(folder));
    for (Predicted& one : values) one.open(folder, batches.samples());
  }

  ReadAhead reader(batches);
  const StepInput input{.step = model.moment.step, .steps = model.moment.steps, .seed = model.moment.seed};
  const int64_t batch = batches.batch_size(), samples = batches.samples();
  int64_t at = 0;
  do {
    const int64_t count = std::min(batch, samples - at);
    // The last batch is filled up with its own samples.
    if (count < batch) batches.fill(at, count);
    else reader.fill(at, at + 2 * batch <= samples && batch > 0 ? at + batch : -1);
    program.run(entry, reading(input, at, count < batch ? count : 0), {});
    for (Predicted& one : values) one.add(rank, count);
    at += batch;
  } while (at < samples);
  for (Predicted& one : values) one.finish();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (rank.rank() == 0) tell_predicted(values, samples, model, seconds.count(), json, options.out);
  return 0;
}

}  // namespace meshrt
