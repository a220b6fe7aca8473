#include "driver/changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "data/data_files.h"
#include "driver/optimizer_changes.h"

namespace meshrt {

std::string data_text(const RunFile& run) {
  const auto cut = [](const char* word, const Given<Cut>& at) {
    if (!at.given()) return std::string();
    if (at.value.scale == 0) return fmt::format(" {} {}", word, at.value.count);
    return fmt::format(" {} {}%", word, static_cast<double>(at.value.count) / static_cast<double>(at.value.scale));
  };
  std::vector<std::string> parts;
  for (const Source& source : run.data) {
    if (source.of.given()) continue;  // another input's files
    for (const FileSource& file : source.files()) {
      std::string text =
          fmt::format("{}: {}", source.input, std::filesystem::path(file.file.value).filename().string());
      text += cut("from", file.from) + cut("to", file.to);
      parts.push_back(source.mixture.empty() ? text : fmt::format("{} x {}", text, file.weight.value));
    }
  }
  return as_utf8(fmt::format("{}{}", fmt::join(parts, ", "), run.train.shuffle.value ? ", shuffled" : ", in order"));
}

double rate_of(const ProgramInfo& info, const RunFile& run) {
  return run.train.rate.given() ? run.train.rate.value : info.rate;
}

std::vector<std::string> changes_since(const Manifest& before, const ProgramInfo& info, const RunFile& run,
                                       const std::map<std::string, DataFile>& files) {
  std::vector<std::string> changes;
  std::vector<std::pair<std::string, int>> mesh;
  for (const MeshAxis& axis : info.mesh) mesh.emplace_back(axis.name, axis.size);
  // The hash is of these too.
  const bool comparable = before.layout == info.layout && before.precision == info.precision && before.mesh == mesh;
  if (comparable && before.spec_hash != info.spec_hash)
    changes.push_back(fmt::format("the spec, a size or `log.watch` has changed since: the hash is {} and was {}",
                                  info.spec_hash, before.spec_hash));
  if (before.precision != info.precision)
    changes.push_back(fmt::format("the precision is {} and was {}", info.precision, before.precision));
  if (const std::string data = data_text(run); !before.data.empty() && before.data != data)
    changes.push_back(fmt::format("data is `{}` and was `{}`: it is read on after {} samples", data, before.data,
                                  before.moment.position));
  for (const auto& [name, file] : files) {
    const auto known = before.data_files.find(name);
    if (known == before.data_files.end() || known->second == file) continue;
    const std::string how = known->second.bytes == file.bytes
                                ? fmt::format("its {} bytes are not those of then", file.bytes)
                                : fmt::format("it has {} bytes and had {}", file.bytes, known->second.bytes);
    changes.push_back(fmt::format("the data file `{}` is another one: {}; it is read on after {} samples", name, how,
                                  before.moment.position));
  }
  if (const double rate = rate_of(info, run); before.rate > 0 && before.rate != rate)
    changes.push_back(
        fmt::format("the learning rate, or the peak of its schedule, is {} and was {}", rate, before.rate));
  const std::vector<std::string> of_optimizer = optimizer_changes(
      {before.optimizer, before.settings}, {info.optimizer, {info.settings.begin(), info.settings.end()}});
  changes.insert(changes.end(), of_optimizer.begin(), of_optimizer.end());
  if (run.train.seed.given() && run.train.seed.value != before.moment.seed)
    changes.push_back(fmt::format("train.seed is {} and was {}: random numbers are others from here on",
                                  run.train.seed.value, before.moment.seed));
  if (before.moment.steps > 0 && before.moment.steps != run.train.steps.value)
    changes.push_back(fmt::format("train.steps is {} and was {}: a rate without `steps:` of its own ends there now",
                                  run.train.steps.value, before.moment.steps));
  return changes;
}

}  // namespace meshrt
