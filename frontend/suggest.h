// "Did you mean": the known name nearest to one that does not exist.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mesh {

// Insertions, deletions, substitutions and swaps of neighbours that turn one text into the other (Damerau-Levenshtein,
// the variant in which no letter is edited twice).
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, if it is near: at most max(1, length / 3) edits, capitals aside (`GELU` is `gelu`).
// The first of equals.
std::optional<std::string> did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// "`batch`, `embed`, `seq` and 4 more": the names in order, once, as many as a reader takes in.
std::string some_of(std::vector<std::string> names);

}  // namespace mesh
