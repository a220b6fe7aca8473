// The text of a tree is JSON: what stands in a bundle for yaml_text.cpp, so that a run file needs no library there.
// Comments (`//`, `/* */`) are skipped. A value on the command line that is not JSON is the text that it is.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "files/yaml_tree.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;

// Characters of the text; it counts those that were read, so that nodes know their places.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  size_t* read_;
};

// Takes what nlohmann's parser finds. Depth and size are bounded.
class TreeMaker : public nlohmann::json_sax<Json> {
 public:
  TreeMaker(const std::string& content, TextPlace place, RunErrors& errors)
      : content_(content), place_(place), errors_(errors) {}

  YamlNode make() {
    const CountingIterator begin(content_.data(), &read_), end(content_.data() + content_.size(), &read_);
    Json::sax_parse(begin, end, this, nlohmann::detail::input_format_t::json, true, true);
    return std::move(root_);
  }

  bool null() override { return value(node(YamlNode::Kind::null, 4)); }
  bool boolean(bool truth) override { return scalar(truth ? "true" : "false"); }
  bool number_integer(number_integer_t number) override { return scalar(fmt::format("{}", number)); }
  bool number_unsigned(number_unsigned_t number) override { return scalar(fmt::format("{}", number)); }
  bool number_float(number_float_t, const string_t& text) override { return scalar(text); }
  bool binary(binary_t&) override { return false; }
  // JSON has quotes for every text: they do not tell a text from a number.
  bool string(string_t& text) override { return scalar(text, 2); }

  bool start_object(size_t) override { return open(YamlNode::Kind::map); }
  bool start_array(size_t) override { return open(YamlNode::Kind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& text) override {
    keys_.back() = {text, mark(text.size() + 2), {}};
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string what = error.what();  // "[json.exception...] parse error at ...: what is wrong"
    const size_t colon = what.find(": ");
    errors_.add(mark(1), "this is not JSON, in which a bundle takes its run file: " +
                             (colon == std::string::npos ? what : what.substr(colon + 2)));
    return false;
  }

 private:
  // The place of what ended with the last character read and has `length` characters.
  Mark mark(size_t length) const {
    const size_t end = std::min(read_, content_.size()), begin = end - std::min(end, length);
    const auto lines = std::count(content_.begin(), content_.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
    const size_t line_end = begin == 0 ? std::string::npos : content_.rfind('\n', begin - 1);
    const size_t column =
        line_end == std::string::npos ? begin + static_cast<size_t>(place_.column_shift) : begin - line_end - 1;
    return {place_.index, static_cast<int>(lines) + 1, static_cast<int>(column) + 1, static_cast<int>(length)};
  }

  YamlNode node(YamlNode::Kind kind, size_t length) {
    YamlNode made;
    made.kind = kind;
    made.mark = mark(length);
    return made;
  }

  bool scalar(std::string text, size_t quotes = 0) {
    YamlNode made = node(YamlNode::Kind::scalar, text.size() + quotes);
    made.scalar = std::move(text);
    return value(std::move(made));
  }

  bool value(YamlNode made) {
    constexpr size_t deepest = 16, most = 10'000;
    if (open_.size() > deepest || ++nodes_ > most) {
      errors_.add(made.mark, "the text is nested too deeply or too large");
      return false;
    }
    if (open_.empty()) {
      root_ = std::move(made);
    } else if (YamlNode& owner = open_.back(); owner.kind == YamlNode::Kind::list) {
      owner.items.push_back(std::move(made));
    } else {
      YamlNode::Entry& entry = keys_.back();
      const auto same = std::ranges::find(owner.entries, entry.key, &YamlNode::Entry::key);
      if (same != owner.entries.end())
        errors_.add(entry.mark, fmt::format("`{}` is given twice", entry.key),
                    fmt::format("first on line {}", same->mark.line));
      entry.value = std::move(made);
      if (same == owner.entries.end()) owner.entries.push_back(std::move(entry));
    }
    return true;
  }

  bool open(YamlNode::Kind kind) {
    open_.push_back(node(kind, 1));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    YamlNode made = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return value(std::move(made));
  }

  const std::string& content_;
  TextPlace place_;
  RunErrors& errors_;
  size_t read_ = 0, nodes_ = 0;
  YamlNode root_;
  std::vector<YamlNode> open_;         // lists and maps that are not complete
  std::vector<YamlNode::Entry> keys_;  // of each of them, the key whose value comes next
};

Json json_of(const YamlNode& node, const std::map<Mark, std::string>& replaced) {
  switch (node.kind) {
    case YamlNode::Kind::null: return nullptr;
    case YamlNode::Kind::scalar: {
      const auto other = replaced.find(node.mark);
      const std::string& text = other == replaced.end() ? node.scalar : other->second;
      const Json value = Json::parse(text, nullptr, false);
      return value.is_number() || value.is_boolean() ? value : Json(text);
    }
    case YamlNode::Kind::list: {
      Json list = Json::array();
      for (const YamlNode& item : node.items) list.push_back(json_of(item, replaced));
      return list;
    }
    case YamlNode::Kind::map: {
      Json map = Json::object();
      for (const YamlNode::Entry& entry : node.entries) map[entry.key] = json_of(entry.value, replaced);
      return map;
    }
  }
  return nullptr;
}

}  // namespace

YamlNode parse_text(const std::string& content, TextPlace place, RunErrors& errors) {
  const bool on_command_line = place.column_shift > 0;
  if (on_command_line && content.find_first_of("{[\"") != 0 && !Json::accept(content)) {
    YamlNode plain;
    plain.kind = content.empty() ? YamlNode::Kind::null : YamlNode::Kind::scalar;
    plain.mark = {place.index, 1, place.column_shift + 1, static_cast<int>(content.size())};
    plain.scalar = content;
    return plain;
  }
  if (std::ranges::all_of(content, [](unsigned char c) { return std::isspace(c) != 0; })) return {};
  return TreeMaker(content, place, errors).make();
}

std::string tree_text(const YamlNode& root, const std::map<Mark, std::string>& replaced) {
  return root.kind == YamlNode::Kind::null ? "" : json_of(root, replaced).dump(2) + "\n";
}

}  // namespace meshrt
