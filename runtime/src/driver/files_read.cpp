#include "driver/files_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

namespace meshrt {

namespace {

/// Whether the name, in which `{step}` may stand for a number, is one of the file's.
bool may_name(const std::string& name, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  constexpr std::string_view mark = "{step}";
  const auto whole = [&](const std::string& path) { return fs::weakly_canonical(path, error).string(); };
  const size_t at = name.find(mark);
  if (at == std::string::npos) return fs::equivalent(file, name, error);
  // What stands before the number and behind it, both in the folder as it is called without links.
  const std::string all = whole(file), pattern = whole(name);
  const size_t begin = std::min(pattern.find(mark), pattern.size()), rest = pattern.size() - begin - mark.size();
  if (all.size() < begin + rest || !all.starts_with(pattern.substr(0, begin))) return false;
  const std::string number = all.substr(begin, all.size() - begin - rest);
  return all.ends_with(pattern.substr(pattern.size() - rest)) && !number.empty() &&
         number.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::string key_that_reads(const RunFile& run, const std::string& path) {
  const auto is_it = [&](const Given<std::string>& file) { return !file.value.empty() && may_name(path, file.value); };
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
