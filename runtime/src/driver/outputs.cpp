#include "driver/outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "driver/files_read.h"
#include "files/elements.h"
#include "meshrt/failure.h"
#include "meshrt/npy.h"
#include "meshrt/program.h"
#include "meshrt/tensors_io.h"
#include "system/suggest.h"

namespace meshrt {

namespace {

constexpr std::string_view step_mark = "{step}";

std::string file_at(std::string file, int64_t step) {
  for (size_t at = file.find(step_mark); at != std::string::npos; at = file.find(step_mark, at))
    file.replace(at, step_mark.size(), std::to_string(step));
  return file;
}

/// Whether another file than an array would be lost by writing one there.
bool is_something_else(const std::string& path) {
  constexpr std::string_view magic = "\x93NUMPY";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored) || std::filesystem::file_size(path, ignored) == 0) return false;
  std::string begin(magic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin != magic;
}

/// Makes the folder of an output, as far as its name is known before a step, lest it be known after the last step alone
/// that nothing can be written there.
void make_place(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::absolute(file.substr(0, file.find(step_mark))).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const int reason = error ? error.value() : access(folder.c_str(), W_OK) != 0 ? errno : 0;
  if (reason != 0) throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", file, std::strerror(reason)));
}

}  // namespace

void check_outputs(const ProgramInfo& info, const RunFile& run) {
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const Output& output = run.outputs[i];
    if (std::ranges::find(info.outputs, output.name) == info.outputs.end())
      throw run.error(output.mark, fmt::format("`{}` has no output `{}`", info.name, output.name),
                      info.outputs.empty() ? fmt::format("`output {}` in the model makes it one", output.name)
                                           : suggestion(output.name, info.outputs, "outputs"));
    if (output.file.value.empty())
      throw run.error(output.mark, fmt::format("`output.{}` names no file", output.name),
                      fmt::format("`{{file: \"out/{}_{{step}}.npy\"}}`", output.name));
    for (const Output& other : std::span(run.outputs).first(i))
      if (other.file.value == output.file.value)
        throw run.error(output.file.mark,
                        fmt::format("`{}` and `{}` would be written to one file", other.name, output.name));
    if (is_something_else(output.file.value))
      throw run.error(output.file.mark, fmt::format("`{}` is no npy file, and is not written over", output.file.value),
                      "name another file");
    require_not_read(run, output.file);
  }
}

std::vector<std::string> never_written(const RunFile& run) {
  std::vector<std::string> notes;
  for (const Output& output : run.outputs)
    if (output.every.value > run.train.steps.value)
      notes.push_back(
          fmt::format("`output.{0}` is never written: `every` is {1}, and the run ends at step {2}. "
                      "Without `every` it is written at the end",
                      output.name, output.every.value, run.train.steps.value));
  return notes;
}

Outputs::Outputs(Rank& rank, Program& program, const RunFile& run) : rank_(rank) {
  check_outputs(program.info(), run);
  for (const Output& output : run.outputs) {
    const std::span<Tensor> tensors = program.tensors();
    const auto called = [&](const Tensor& t) { return t.name == output.name; };
    auto tensor = std::find_if(tensors.begin(), tensors.end(),
                               [&](const Tensor& t) { return called(t) && t.role == Role::output; });
    if (tensor == tensors.end()) tensor = std::find_if(tensors.begin(), tensors.end(), called);
    if (rank.rank() == 0) make_place(output.file.value);
    written_.push_back({&*tensor, output.every.value, output.file.value});
  }
}

void Outputs::write(int64_t step, bool last) const {
  for (const Written& one : written_) {
    if (one.every > 0 ? step % one.every != 0 : !last) continue;
    std::vector<std::byte> whole = gather_tensor(rank_, *one.tensor);
    if (rank_.rank() != 0) continue;
    Type type = one.tensor->type;
    if (type == Type::bf16) {  // which NumPy does not have
      const auto count = static_cast<int64_t>(whole.size() / size_of(type));
      std::vector<std::byte> wide(static_cast<size_t>(count) * sizeof(float));
      convert(whole.data(), {number_of(type)}, count, Type::f32, -1, wide.data());
      type = Type::f32;
      whole = std::move(wide);
    }
    std::vector<int64_t> shape;
    for (const LocalDim& dim : one.tensor->dims) shape.push_back(dim.size);
    const std::string path = file_at(one.file, step);
    make_place(path);
    write_npy(path, type, shape, whole);
  }
}

}  // namespace meshrt
