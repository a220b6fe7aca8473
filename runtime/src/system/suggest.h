// suggest.h: "did you mean": the known word that a mistyped one is closest to.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace meshrt {

/// The word of `known` that `word` becomes by the fewest insertions, deletions, changes and swaps of neighbours,
/// capitals aside; empty when that takes more than a third of its letters (at least one is allowed). The first of
/// equals.
std::string closest_word(std::string_view word, const std::vector<std::string>& known);

/// "did you mean `steps`?", or when nothing is close, "known keys: steps, seed" (for `kind` = "keys").
std::string suggestion(std::string_view word, const std::vector<std::string>& known, std::string_view kind);

struct Suggestions {
  std::vector<std::string> lines;  // of each word: the text, and "did you mean"
  std::string known;               // the beginning of the list, where there is a word that nothing is close to
};
/// Of several words, the list once. `text` has `{}` where the word goes.
Suggestions suggestions(const std::string& text, const std::vector<std::string>& words,
                        const std::vector<std::string>& known, std::string_view kind);

}  // namespace meshrt
