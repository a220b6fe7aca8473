// run_keys.h: every key of a run file, once: what the reader takes, what messages offer, and what the JSON Schema says.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshrt {

/// A key and what its value may be.
struct RunKey {
  enum class Kind {
    section,  ///< a map with keys of its own
    files,    ///< the list of a mixture
    names,    ///< a list of names
    whole,    ///< a whole number of at least `least`
    positive,
    text,
    texts,  ///< a text, or a list of them
    word,   ///< one of `words`
    truth,  ///< true or false
    range,  ///< "10..12"
    bytes,  ///< "5 GB"
    cut,    ///< a number of entries, or "95%"
    duration
  };
  std::string name;
  Kind kind;
  std::string meaning;
  int64_t least = 0;
  std::vector<std::string> words = {};
};

/// The keys of a map. `path` has a `*` for a name that the user chooses: "data.*.mix".
struct RunSection {
  std::string path;
  std::vector<RunKey> keys;
  bool named = false;  ///< holds maps under such names, beside its keys
};
const std::vector<RunSection>& run_sections();
const RunSection& run_section(std::string_view path);

/// The keys called `name`, as they are set: "dir" -> "checkpoint.dir", "run.dir". Not those under a name that the
/// user chooses.
std::vector<std::string> run_keys_called(std::string_view name);

/// Where that is said which no run file says, of a word that one would look for there: "batch" is a size of the spec.
/// `value` is what was written beside it. Empty for other words.
std::string said_elsewhere(std::string_view name, std::string_view value);

/// A JSON Schema of run files.
std::string run_file_schema();

}  // namespace meshrt
