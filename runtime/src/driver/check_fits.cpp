// Whether a run file fits a program, looked at without memory and without ranks.
#include <algorithm>

#include "data/batches.h"
#include "driver/model_files.h"
#include "driver/outputs.h"
#include "driver/read_once.h"
#include "meshrt/driver.h"
#include "meshrt/program.h"

namespace meshrt {

namespace {

bool is_tokenized(const Source& source) {
  return std::ranges::any_of(source.files(), [](const FileSource& file) { return file.tokenizer.given(); });
}

void check_section(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run,
                   const std::vector<Source>& sources, const std::string& section, NamedFiles files,
                   std::span<const std::string> unread = {}) {
  if (files == NamedFiles::may_lack) return Batches::check_names(tensors, info, run, sources, section);
  if (std::ranges::none_of(sources, is_tokenized)) {
    Batches(tensors, info, run, sources, section, unread);
    return;
  }
  Batches::check_names(tensors, info, run, sources, section);
  for (const Tensor& tensor : tensors)
    if (tensor.role == Role::input && std::ranges::count(unread, tensor.name) == 0)
      Batches::source_of(tensor.name, sources, section);
}

}  // namespace

void check_fits(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run, NamedFiles files) {
  check_section(info, tensors, run, run.data, "data", files);
  if (run.validation.given()) check_section(info, tensors, run, run.validation.data, "validation", files);
  check_outputs(info, run);
}

void check_evaluates(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run, const ModelFiles& files) {
  const EvaluationSet set = evaluation_set(run);
  check_section(info, tensors, run, set.sources, set.section, NamedFiles::must_exist,
                info.entries[entry_of(info, "evaluate")].unread);
  paths_of(tensors, run, files);
}

void check_predicts(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run, const ModelFiles& files) {
  check_section(as_entry_reads(info, predict_entry), tensors, run, read_whole(run.data), "data", NamedFiles::must_exist,
                info.entries[entry_of(info, predict_entry)].unread);
  paths_of(tensors, run, files);
}

}  // namespace meshrt
