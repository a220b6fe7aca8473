// mutate.h: a spec with a few things wrong, or just different: bytes, tokens and lines changed, left out, doubled,
// exchanged, taken from another spec. The same seed makes the same text.
#pragma once
#include <random>
#include <string>
#include <vector>

namespace mesh::fuzz {

/// One of `texts` after one to four changes. `mild`: single tokens alone, so that many results are still specs.
std::string mutated(const std::vector<std::string>& texts, std::mt19937_64& random, bool mild);

}  // namespace mesh::fuzz
