#include "driver/watched.h"

#include <fmt/format.h>

#include <algorithm>

#include "system/suggest.h"

namespace meshrt {

std::vector<size_t> watched_norms(const ProgramInfo& info, const RunFile& run) {
  std::vector<size_t> norms;
  for (const Given<std::string>& entry : run.log.watch) {
    bool found = false;
    for (size_t i = 0; i < info.watched.size(); ++i) {
      const ProgramInfo::Watched& one = info.watched[i];
      if (entry.value != one.name && (one.pattern.empty() || entry.value != one.pattern)) continue;
      found = true;
      const auto same = [&](size_t known) { return info.watched[known].name == one.name; };
      if (std::ranges::none_of(norms, same)) norms.push_back(i);
    }
    if (found) continue;
    std::vector<std::string> known;
    for (const ProgramInfo::Watched& one : info.watched)
      for (const std::string& word : {one.name, one.pattern})
        if (!word.empty() && std::ranges::count(known, word) == 0) known.push_back(word);
    throw run.error(entry.mark,
                    fmt::format("`{}` is not compiled to watch `{}`: `meshc build {} RUN.yaml` compiles a program for "
                                "what its run file watches",
                                info.name, entry.value, info.spec),
                    known.empty() ? "" : suggestion(entry.value, known, "names"));
  }
  return norms;
}

}  // namespace meshrt
