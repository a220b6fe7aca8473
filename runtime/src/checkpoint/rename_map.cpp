#include "meshrt/rename_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "files/file_bytes.h"
#include "files/yaml_tree.h"
#include "system/suggest.h"

namespace meshrt {

namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.emplace_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_dim(std::string_view word) {
  const auto good = [](char c) {
    return c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !word.empty() && std::ranges::all_of(word, good);
}

/// "h.{layer}.w [embed, heads * head_dim]"; why it cannot be read in `fault`.
Renaming parse(std::string_view text, std::string& fault) {
  Renaming made;
  std::string_view name = text;
  if (const size_t open = text.find('['); open != std::string_view::npos) {
    name = trimmed(text.substr(0, open));
    std::string_view dims = trimmed(text.substr(open + 1));
    if (!dims.ends_with(']')) fault = "`[` is not closed";
    else dims.remove_suffix(1);
    for (const std::string& dim : split(dims, ',')) {
      const std::vector<std::string> merged = split(dim, '*');
      made.merged.push_back(merged.size());
      made.dims.insert(made.dims.end(), merged.begin(), merged.end());
    }
    for (const std::string& dim : made.dims)
      if (fault.empty() && !is_dim(dim)) fault = fmt::format("`{}` is not a dim", dim);
  }
  if (name.find(' ') != std::string_view::npos || name.empty()) fault = fmt::format("`{}` is not a name", name);
  made.before = name;
  if (const size_t open = name.find('{'); open != std::string_view::npos) {
    const size_t close = name.find('}', open);
    if (close == std::string_view::npos || !is_dim(name.substr(open + 1, close - open - 1))) {
      fault = "braces hold the name of one dim";
      return made;
    }
    made.before = name.substr(0, open);
    made.stacked = name.substr(open + 1, close - open - 1);
    made.after = name.substr(close + 1);
    if (made.after.find('{') != std::string::npos) fault = "only the first dim can be in braces";
  }
  return made;
}

}  // namespace

std::string Renaming::name(int64_t index) const {
  return stacked.empty() ? before : before + std::to_string(index) + after;
}

std::vector<int64_t> Renaming::shape(std::span<const int64_t> sizes) const {
  if (!stacked.empty()) sizes = sizes.subspan(1);
  if (dims.empty()) return {sizes.begin(), sizes.end()};
  std::vector<int64_t> shape;
  for (size_t at = 0; const size_t count : merged) {
    const auto some = sizes.subspan(at, count);
    shape.push_back(std::accumulate(some.begin(), some.end(), int64_t{1}, std::multiplies<>()));
    at += count;
  }
  return shape;
}

std::string Renaming::fault(size_t count, std::span<const std::string> names) const {
  std::vector<std::string> written;
  if (!stacked.empty()) written.push_back(stacked);
  written.insert(written.end(), dims.begin(), dims.end());
  const bool all = !dims.empty();
  if (written.empty() || ((all ? count == written.size() : count >= 1) &&
                          (names.empty() || std::ranges::equal(written, names.first(written.size())))))
    return "";
  return fmt::format("the map gives it the dims {}{}, it has {}", fmt::join(written, ", "), all ? "" : ", ...",
                     names.empty() ? std::to_string(count) + " of them" : fmt::format("{}", fmt::join(names, ", ")));
}

RenameMap RenameMap::read(const std::string& path) {
  const auto file = FileBytes::open(path, Compression::none);
  RunText text;
  RunErrors errors(text);
  text.add({path, {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, ""});
  const YamlNode root = parse_yaml(text, 0, errors);
  errors.throw_if_any();
  RenameMap map;
  std::map<std::string, std::string> taken;
  if (root.kind != YamlNode::Kind::map)
    errors.add(root.mark, fmt::format("a map of names is expected, not {}", root.describe()), "`ours: theirs`");
  for (const auto& entry : root.entries) {
    if (entry.value.kind != YamlNode::Kind::scalar || entry.value.scalar.empty()) {
      errors.add(entry.value.mark,
                 fmt::format("`{}` is called by {}, not by a name", entry.key, entry.value.describe()));
      continue;
    }
    std::string fault;
    const Renaming made = parse(entry.value.scalar, fault);
    const auto [other, fresh] = taken.try_emplace(made.before + "{}" + made.after, entry.key);
    if (!fault.empty()) errors.add(entry.value.mark, fault, "`NAME.{dim}.NAME [dim, dim * dim]`");
    else if (!fresh)
      errors.add(entry.value.mark, fmt::format("`{}` is the name of `{}` already", entry.value.scalar, other->second));
    else map.names_[entry.key] = made;
  }
  errors.throw_if_any();
  return map;
}

Renaming RenameMap::of(const std::string& tensor) const {
  const auto found = names_.find(tensor);
  return found == names_.end() ? Renaming{.before = tensor, .after = {}, .stacked = {}, .dims = {}, .merged = {}}
                               : found->second;
}

std::vector<std::string> RenameMap::tensors() const {
  std::vector<std::string> tensors;
  for (const auto& [tensor, name] : names_) tensors.push_back(tensor);
  return tensors;
}

Pieces pieces_of(const std::string& tensor, std::span<const std::string> dims, std::span<const int64_t> sizes,
                 const RenameMap& names, const FindArray& find) {
  const Renaming renaming = names.of(tensor);
  Pieces pieces;
  if (const std::string fault = renaming.fault(dims.size(), dims); !fault.empty()) {
    pieces.misfit = fmt::format("`{}`: {}", tensor, fault);
    return pieces;
  }
  const std::vector<int64_t> shape = renaming.shape(sizes);
  const int64_t count = renaming.stacked.empty() ? 1 : sizes[0];
  for (int64_t i = 0; i < count; ++i) {
    pieces.names.push_back(renaming.name(i));
    const NamedArray* found = find(pieces.names.back());
    if (found == nullptr) pieces.missing.push_back(pieces.names.back());
    else if (found->shape != shape && pieces.misfit.empty())
      pieces.misfit = fmt::format("`{}` is [{}] in the file and [{}] in the program", found->name,
                                  fmt::join(found->shape, ", "), fmt::join(shape, ", "));
    pieces.arrays.push_back(found);
  }
  for (const NamedArray* one : pieces.arrays)
    if (pieces.missing.empty() && pieces.misfit.empty() && one->type != pieces.arrays[0]->type)
      pieces.misfit = fmt::format("`{}` is {}, but `{}` is {}", one->name, name_of(one->type), pieces.arrays[0]->name,
                                  name_of(pieces.arrays[0]->type));
  if (!pieces.missing.empty() || !pieces.misfit.empty()) pieces.arrays.clear();
  return pieces;
}

void check_names(const RenameMap& names, const SavedTensors& saved) {
  std::vector<std::string> wrong, known;
  std::map<std::string, std::string> taken;
  for (const NamedArray& tensor : saved.tensors()) {
    known.push_back(tensor.name);
    std::vector<std::string> dims;
    if (saved.manifest())
      if (const auto found = saved.manifest()->dims.find(tensor.name);
          found != saved.manifest()->dims.end() && found->second.size() == tensor.shape.size())
        dims = found->second;
    const Renaming renaming = names.of(tensor.name);
    if (const std::string fault = renaming.fault(tensor.shape.size(), dims); !fault.empty()) {
      wrong.push_back(fmt::format("`{}`: {}", tensor.name, fault));
      continue;
    }
    const int64_t count = renaming.stacked.empty() ? 1 : tensor.shape[0];
    for (int64_t i = 0; i < count; ++i)
      if (const auto [other, fresh] = taken.try_emplace(renaming.name(i), tensor.name); !fresh)
        wrong.push_back(fmt::format("`{}` and `{}` would both be `{}`", other->second, tensor.name, other->first));
  }
  std::vector<std::string> absent = names.tensors();
  std::erase_if(absent, [&](const std::string& name) { return saved.find(name) != nullptr; });
  const Suggestions said = suggestions("the map names `{}`, which is not there", absent, known, "tensors");
  wrong.insert(wrong.end(), said.lines.begin(), said.lines.end());
  if (wrong.empty()) return;
  constexpr size_t shown = 12;  // of another model all names are wrong
  const size_t left = wrong.size() - std::min(shown, wrong.size());
  wrong.resize(wrong.size() - left);
  if (left > 0) wrong.push_back(fmt::format("and {} more", left));
  if (!said.known.empty()) wrong.push_back(said.known);
  const bool has_others = std::ranges::any_of(
      absent, [&](const std::string& name) { return saved.find(names.of(name).name()) != nullptr; });
  if (has_others)
    wrong.emplace_back(
        "a map `ours: theirs` gives the names on its right to tensors that have those on its left, and some here have\n"
        "  those on its right: with `--params` or `train.params` such a file is read as it is, by `--names` or "
        "`train.names`");
  throw Failure(Cause::data,
                fmt::format("the map of names does not fit `{}`:\n  {}", saved.path(), fmt::join(wrong, "\n  ")));
}

std::vector<NamedArray> renamed(const NamedArray& tensor, const RenameMap& names) {
  const Renaming renaming = names.of(tensor.name);
  if (const std::string fault = renaming.fault(tensor.shape.size()); !fault.empty())
    throw Failure(Cause::data, fmt::format("`{}`: {}", tensor.name, fault));
  const int64_t count = renaming.stacked.empty() ? 1 : tensor.shape[0];
  std::vector<NamedArray> parts;
  for (int64_t i = 0; i < count; ++i) {
    const size_t bytes = tensor.data.size() / static_cast<size_t>(count);
    parts.push_back({renaming.name(i), tensor.type, renaming.shape(tensor.shape),
                     tensor.data.subspan(static_cast<size_t>(i) * bytes, bytes)});
  }
  return parts;
}

}  // namespace meshrt
