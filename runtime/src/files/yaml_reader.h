// yaml_reader.h: typed values out of a tree: each function takes one value, or reports why it is not of its type.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/yaml_tree.h"
#include "meshrt/run_keys.h"

namespace meshrt {

/// A map of the run file while it is read. `path` ("data.token") stands in messages.
class MapReader {
 public:
  /// Reports a value that is not a map, and keys that `section` does not know.
  MapReader(const YamlNode* node, std::string path, const RunSection& section, RunErrors& errors);

  const YamlNode* find(std::string_view key) const;
  std::string path_of(std::string_view key) const;
  RunErrors& errors() const { return errors_; }

  // A key that the section does not have, or not as a value of this kind, is a mistake of the program.
  /// A whole number.
  Given<int64_t> whole(std::string_view key, int64_t otherwise = 0) const;
  /// A number above zero.
  Given<double> positive(std::string_view key, double otherwise) const;
  Given<std::string> text(std::string_view key, std::string otherwise = "") const;
  /// One text, or each of a list. Empty when it is not given.
  std::vector<Given<std::string>> texts(std::string_view key) const;
  /// The index of one of the key's words. -1 when not given or not one of them.
  Given<int> word(std::string_view key) const;
  /// `true` or `false`.
  Given<bool> truth(std::string_view key, bool otherwise) const;
  /// A number of bytes, such as "5 GB".
  Given<int64_t> bytes(std::string_view key, int64_t otherwise) const;

  Given<Cut> cut(std::string_view key) const;
  Given<double> duration(std::string_view key, double otherwise) const;
  /// nullptr when it is not given, or no list of names.
  const YamlNode* names(std::string_view key) const;

  /// Reports that the value of `key` is not `expected` ("a whole number of at least 1").
  void mismatch(std::string_view key, const YamlNode& node, std::string_view expected) const;

 private:
  const RunKey& known(std::string_view key, RunKey::Kind kind) const;
  Given<int> one_of(std::string_view key, const std::vector<std::string>& words) const;

  const RunSection& section_;
  const YamlNode* map_ = nullptr;
  std::string path_;
  RunErrors& errors_;
};

/// Whole and decimal numbers as YAML and specs write them: "5000", "5_000", "3e-4". Nothing when it is none, or too
/// large.
std::optional<int64_t> whole_number(std::string_view text);
std::optional<double> decimal_number(std::string_view text);

/// Seconds of "90", "12:30", "23:50:00" or "2-00:00:00" (days first).
std::optional<double> duration(std::string_view text);

/// Bytes of "5 GB", "512MiB", "4096".
std::optional<int64_t> byte_count(std::string_view text);

/// "10..12", or "10" for one step. Nothing when it is none, or when the last comes before the first.
std::optional<StepRange> step_range(std::string_view text);

/// "95%", "12.5%" or a number of entries.
std::optional<Cut> cut(std::string_view text);

}  // namespace meshrt
