// Whether a run file fits a program, looked at without memory and without ranks.
#include <algorithm>

#include "data/batches.h"
#include "driver/outputs.h"
#include "meshrt/driver.h"

namespace meshrt {

namespace {

bool is_tokenized(const Source& source) {
  return std::ranges::any_of(source.files(), [](const FileSource& file) { return file.tokenizer.given(); });
}

void check_section(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run,
                   const std::vector<Source>& sources, const char* section, NamedFiles files) {
  if (files == NamedFiles::may_lack || std::ranges::any_of(sources, is_tokenized))
    Batches::check_names(tensors, info, run, sources, section);
  else Batches(tensors, info, run, sources, section);
}

}  // namespace

void check_fits(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run, NamedFiles files) {
  check_section(info, tensors, run, run.data, "data", files);
  if (run.validation.given()) check_section(info, tensors, run, run.validation.data, "validation", files);
  check_outputs(info, run);
}

}  // namespace meshrt
