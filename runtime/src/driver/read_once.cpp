#include "driver/read_once.h"

#include <algorithm>

namespace meshrt {

namespace {

bool on_command_line(Mark mark) { return mark.text > 0; }

bool names_files(const Source& source) { return on_command_line(source.file.mark) || on_command_line(source.mix); }

}  // namespace

std::vector<Source> read_whole(std::vector<Source> sources) {
  for (Source& source : sources) {
    if (!on_command_line(source.file.mark)) continue;
    if (!on_command_line(source.from.mark)) source.from = {};
    if (!on_command_line(source.to.mark)) source.to = {};
  }
  return sources;
}

EvaluationSet evaluation_set(const RunFile& run) {
  // Of `validation`, what it takes over from `data` has the place of there.
  if (run.validation.given() && std::ranges::none_of(run.data, names_files)) {
    EvaluationSet set = validation_set(run);
    set.sources = read_whole(std::move(set.sources));
    return set;
  }
  return {"data", read_whole(run.data), {}};
}

}  // namespace meshrt
