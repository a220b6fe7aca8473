// data_show.cpp: `meshc data show`: what is in data files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/data.h"
#include "meshrt/data.h"
#include "meshrt/log.h"
#include "meshrt/tokenizer.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;
using meshrt::FileType, meshrt::NumberFile, meshrt::Type;

constexpr int64_t shown = 16;

/// The least and the greatest number, as T holds them.
template <class T>
std::pair<T, T> range_of(const NumberFile& file, Type type) {
  constexpr int64_t block = 1 << 20;
  std::vector<T> numbers;
  std::pair<T, T> range{};
  for (int64_t begin = 0; begin < file.elements(); begin += block) {
    numbers.resize(static_cast<size_t>(std::min(block, file.elements() - begin)));
    file.read(begin, static_cast<int64_t>(numbers.size()), type, -1, "the range", numbers.data());
    const auto [least, greatest] = std::ranges::minmax(numbers);
    range = begin == 0 ? std::pair(least, greatest)
                       : std::pair(std::min(range.first, least), std::max(range.second, greatest));
  }
  return range;
}

template <class T>
Json described(const NumberFile& file, Type type) {
  Json about;
  if (file.elements() > 0) {
    const auto [least, greatest] = range_of<T>(file, type);
    about["least"] = least;
    about["greatest"] = greatest;
  }
  std::vector<T> first(static_cast<size_t>(std::min(shown, file.elements())));
  file.read(0, static_cast<int64_t>(first.size()), type, -1, "the first numbers", first.data());
  about["first"] = first;
  return about;
}

std::string format_name(FileType type) {
  return type == FileType::detect ? "text" : meshrt::file_type_names()[static_cast<size_t>(type) - 1];
}

Json about(const std::string& path, const DataOptions& options) {
  const FileType type = options.from.empty() ? FileType::detect : *meshrt::file_type_named(options.from);
  const NumberFile file =
      options.tokenizer.empty() ? NumberFile::open(path, type) : NumberFile::tokenized(path, options.tokenizer);
  const std::string number = file.number_name();
  const bool fractions = number.starts_with("f") || number == "bf16";
  Json object = {{"path", path},
                 {"format", options.tokenizer.empty() ? format_name(file.format()) : "text"},
                 {"type", number},
                 {"shape", file.shape()},
                 {"numbers", file.elements()}};
  if (file.documents() >= 0) object["documents"] = file.documents();
  object.update(fractions ? described<double>(file, Type::f64) : described<int64_t>(file, Type::i64));
  return object;
}

}  // namespace

int show_data(const DataOptions& options) {
  Json list = Json::array();
  for (const std::string& path : options.files) {
    const Json file = about(path, options);
    list.push_back(file);
    if (options.json) continue;
    std::string text =
        fmt::format("{}: {}, {} [{}]", path, file["format"].get<std::string>(), file["type"].get<std::string>(),
                    fmt::join(file["shape"].get<std::vector<int64_t>>(), ", "));
    if (file.contains("documents"))
      text += fmt::format(", {} documents", meshrt::grouped(file["documents"].get<int64_t>()));
    if (file.contains("least")) text += fmt::format(", {} to {}", file["least"].dump(), file["greatest"].dump());
    std::vector<std::string> first;
    for (const Json& number : file["first"]) first.push_back(number.dump());
    fmt::print("{}\n  {}{}\n", text, fmt::join(first, " "), file["numbers"].get<int64_t>() > shown ? " ..." : "");
  }
  if (options.json) fmt::print("{}\n", Json{{"schema", 1}, {"files", list}}.dump(2));
  return exit_ok;
}

}  // namespace mesh
