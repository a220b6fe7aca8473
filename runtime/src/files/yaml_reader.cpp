#include "files/yaml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <stdexcept>

#include "system/suggest.h"

namespace meshrt {

MapReader::MapReader(const YamlNode* node, std::string path, const RunSection& section, RunErrors& errors)
    : section_(section), path_(std::move(path)), errors_(errors) {
  if (node == nullptr || node->kind == YamlNode::Kind::null) return;
  std::vector<std::string> known;
  for (const RunKey& key : section.keys) known.push_back(key.name);
  if (node->kind != YamlNode::Kind::map) {
    const std::string what = path_.empty() ? "a run file" : fmt::format("`{}`", path_);
    errors_.add(node->mark, fmt::format("{} must be a map of keys and values, not {}", what, node->describe()),
                known.empty() || section.named ? "" : fmt::format("keys: {}", fmt::join(known, ", ")));
    return;
  }
  map_ = node;
  if (section.named) return;
  for (const auto& entry : node->entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    const std::vector<std::string> elsewhere = run_keys_called(entry.key);
    const bool misplaced = path_.empty() && !elsewhere.empty();
    const std::string of_others = said_elsewhere(entry.key, entry.value.scalar);
    errors_.add(entry.mark,
                path_.empty() ? fmt::format("unknown key `{}`", entry.key)
                              : fmt::format("unknown key `{}` in `{}`", entry.key, path_),
                misplaced            ? fmt::format("did you mean `{}`?", fmt::join(elsewhere, "` or `"))
                : !of_others.empty() ? of_others
                                     : suggestion(entry.key, known, "keys"));
  }
}

const RunKey& MapReader::known(std::string_view key, RunKey::Kind kind) const {
  const auto found = std::ranges::find(section_.keys, key, &RunKey::name);
  if (found == section_.keys.end() || found->kind != kind)
    throw std::logic_error(fmt::format("`{}` is read as what run_keys.cpp does not say", path_of(key)));
  return *found;
}

const YamlNode* MapReader::find(std::string_view key) const { return map_ == nullptr ? nullptr : map_->find(key); }

std::string MapReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void MapReader::mismatch(std::string_view key, const YamlNode& node, std::string_view expected) const {
  errors_.add(node.mark, fmt::format("`{}` must be {}, not {}", path_of(key), expected, node.describe()));
}

namespace {

const std::string* plain(const YamlNode& node) {
  return node.kind == YamlNode::Kind::scalar && !node.quoted ? &node.scalar : nullptr;
}

}  // namespace

Given<int64_t> MapReader::whole(std::string_view key, int64_t otherwise) const {
  const int64_t least = known(key, RunKey::Kind::whole).least;
  const YamlNode* node = find(key);
  if (node == nullptr) return {otherwise, {}};
  const std::string* text = plain(*node);
  const std::optional<int64_t> value = text ? whole_number(*text) : std::nullopt;
  if (!value || *value < least) {
    const bool is_large =
        !value && text && !text->empty() && text->find_first_not_of("0123456789") == std::string::npos;
    mismatch(key, *node,
             is_large ? fmt::format("a whole number of at most {}", INT64_MAX)
                      : fmt::format("a whole number of at least {}", least));
    return {otherwise, node->mark};
  }
  return {*value, node->mark};
}

Given<double> MapReader::positive(std::string_view key, double otherwise) const {
  known(key, RunKey::Kind::positive);
  const YamlNode* node = find(key);
  if (node == nullptr) return {otherwise, {}};
  const std::string* text = plain(*node);
  const std::optional<double> value = text ? decimal_number(*text) : std::nullopt;
  if (!value || *value <= 0) {
    mismatch(key, *node, "a number above 0");
    return {otherwise, node->mark};
  }
  return {*value, node->mark};
}

Given<std::string> MapReader::text(std::string_view key, std::string otherwise) const {
  known(key, RunKey::Kind::text);
  const YamlNode* node = find(key);
  if (node == nullptr) return {std::move(otherwise), {}};
  if (node->kind != YamlNode::Kind::scalar || node->scalar.empty()) {
    mismatch(key, *node, "a text");
    return {std::move(otherwise), node->mark};
  }
  return {node->scalar, node->mark};
}

std::vector<Given<std::string>> MapReader::texts(std::string_view key) const {
  known(key, RunKey::Kind::texts);
  const YamlNode* node = find(key);
  if (node == nullptr) return {};
  std::vector<Given<std::string>> texts;
  const bool list = node->kind == YamlNode::Kind::list && !node->items.empty();
  for (const YamlNode& one : list ? std::span<const YamlNode>(node->items) : std::span<const YamlNode>(node, 1)) {
    if (one.kind == YamlNode::Kind::scalar && !one.scalar.empty()) texts.push_back({one.scalar, one.mark});
    else mismatch(key, one, list ? "a list of texts" : "a text, or a list of them");
  }
  return texts;
}

Given<int> MapReader::word(std::string_view key) const { return one_of(key, known(key, RunKey::Kind::word).words); }

Given<int> MapReader::one_of(std::string_view key, const std::vector<std::string>& words) const {
  const YamlNode* node = find(key);
  if (node == nullptr) return {-1, {}};
  if (node->kind == YamlNode::Kind::scalar) {
    const auto found = std::find(words.begin(), words.end(), node->scalar);
    if (found != words.end()) return {static_cast<int>(found - words.begin()), node->mark};
  }
  const std::string closest = node->kind == YamlNode::Kind::scalar ? closest_word(node->scalar, words) : "";
  errors_.add(node->mark,
              fmt::format("`{}` must be one of {}, not {}", path_of(key), fmt::join(words, ", "), node->describe()),
              closest.empty() ? "" : fmt::format("did you mean `{}`?", closest));
  return {-1, node->mark};
}

Given<bool> MapReader::truth(std::string_view key, bool otherwise) const {
  known(key, RunKey::Kind::truth);
  const Given<int> word = one_of(key, {"false", "true"});
  return {word.value < 0 ? otherwise : word.value == 1, word.mark};
}

Given<int64_t> MapReader::bytes(std::string_view key, int64_t otherwise) const {
  known(key, RunKey::Kind::bytes);
  const YamlNode* node = find(key);
  if (node == nullptr) return {otherwise, {}};
  if (node->kind == YamlNode::Kind::scalar)
    if (const auto count = byte_count(node->scalar); count && *count > 0) return {*count, node->mark};
  mismatch(key, *node, "a number of bytes such as 5 GB");
  return {otherwise, node->mark};
}

Given<Cut> MapReader::cut(std::string_view key) const {
  known(key, RunKey::Kind::cut);
  const YamlNode* node = find(key);
  if (node == nullptr) return {};
  if (node->kind == YamlNode::Kind::scalar)
    if (const auto value = meshrt::cut(node->scalar)) return {*value, node->mark};
  mismatch(key, *node, "a number of entries, or a share such as `95%`");
  return {{}, node->mark};
}

Given<double> MapReader::duration(std::string_view key, double otherwise) const {
  known(key, RunKey::Kind::duration);
  const YamlNode* node = find(key);
  if (node == nullptr) return {otherwise, {}};
  const auto seconds = node->kind == YamlNode::Kind::scalar ? meshrt::duration(node->scalar) : std::nullopt;
  if (seconds && *seconds > 0) return {*seconds, node->mark};
  mismatch(key, *node, "a time such as 23:50:00");
  return {otherwise, {}};
}

const YamlNode* MapReader::names(std::string_view key) const {
  known(key, RunKey::Kind::names);
  const YamlNode* node = find(key);
  if (node == nullptr || node->kind == YamlNode::Kind::null) return nullptr;
  const auto other =
      std::ranges::find_if(node->items, [](const YamlNode& item) { return item.kind != YamlNode::Kind::scalar; });
  if (node->kind == YamlNode::Kind::list && other == node->items.end()) return node;
  mismatch(key, node->kind == YamlNode::Kind::list ? *other : *node, "a list of names");
  return nullptr;
}

std::optional<int64_t> whole_number(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<double> decimal_number(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> duration(std::string_view text) {
  int64_t days = 0;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = whole_number(text.substr(0, dash));
    if (!number || *number < 0) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  double seconds = 0;
  for (int parts = 1; parts <= 3; ++parts) {
    const size_t colon = text.find(':');
    const auto number = whole_number(text.substr(0, colon));
    if (!number || *number < 0 || (parts > 1 && *number >= 60)) return std::nullopt;
    seconds = seconds * 60 + static_cast<double>(*number);
    if (colon == std::string_view::npos) return static_cast<double>(days) * 86400 + seconds;
    text.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

std::optional<int64_t> byte_count(std::string_view text) {
  constexpr std::pair<std::string_view, double> units[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}};
  double unit = 1;
  for (const auto& [name, bytes] : units)
    if (unit == 1 && text.ends_with(name)) {
      text.remove_suffix(name.size());
      unit = bytes;
    }
  while (text.ends_with(' ')) text.remove_suffix(1);
  const std::optional<double> number = decimal_number(text);
  if (!number || *number < 0 || *number * unit > 0x1p62) return std::nullopt;
  return static_cast<int64_t>(*number * unit);
}

std::optional<StepRange> step_range(std::string_view text) {
  const size_t dots = text.find("..");
  const auto first = whole_number(text.substr(0, dots));
  const auto last = dots == std::string_view::npos ? first : whole_number(text.substr(dots + 2));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return StepRange{*first, *last};
}

std::optional<Cut> cut(std::string_view text) {
  if (!text.ends_with('%')) {
    const auto count = whole_number(text);
    if (!count || *count < 0) return std::nullopt;
    return Cut{*count, 0};
  }
  text.remove_suffix(1);
  const size_t point = text.find('.');
  const std::string_view fraction = point == std::string_view::npos ? "" : text.substr(point + 1);
  if (fraction.size() > 6) return std::nullopt;
  int64_t scale = 1;
  for (size_t i = 0; i < fraction.size(); ++i) scale *= 10;
  const auto percent = whole_number(std::string(text.substr(0, point)) + std::string(fraction));
  if (!percent || *percent < 0 || *percent > 100 * scale) return std::nullopt;
  return Cut{*percent, scale};
}

}  // namespace meshrt
