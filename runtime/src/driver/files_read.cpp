#include "driver/files_read.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

namespace meshrt {

std::string key_that_reads(const RunFile& run, const std::string& path) {
  std::error_code other;
  const auto is_it = [&](const Given<std::string>& file) {
    return !file.value.empty() && std::filesystem::equivalent(file.value, path, other);
  };
  const auto by_section = [&](const std::vector<Source>& sources, const char* section) -> std::string {
    for (const Source& source : sources) {
      for (const FileSource& one : source.files())
        if (is_it(one.file)) return fmt::format("{}.{}.file", section, source.input);
      if (is_it(source.tokenizer)) return fmt::format("{}.{}.tokenizer", section, source.input);
    }
    return "";
  };
  for (const Given<std::string>& file : run.train.params)
    if (is_it(file)) return "train.params";
  const std::string data = by_section(run.data, "data");
  return data.empty() ? by_section(run.validation.data, "validation") : data;
}

void require_not_read(const RunFile& run, const Given<std::string>& written) {
  if (const std::string key = key_that_reads(run, written.value); !key.empty())
    throw run.error(written.mark,
                    fmt::format("`{}` would be written over, which the run reads as `{}`", written.value, key),
                    "name another file");
}

}  // namespace meshrt
