// mutate_bytes.h: mutants of bytes: of files that are damaged, of what a hostile peer sends.
#pragma once
#include <random>
#include <string>
#include <vector>

namespace mesh::fuzz {

using Random = std::mt19937_64;

/// A number from 0 to limit - 1.
size_t below(Random& random, size_t limit);

/// Changes one thing: a bit, a number, a piece that goes, comes twice, or comes from one of `others`, which are right.
void change(std::string& bytes, Random& random, const std::vector<std::string>& others);

}  // namespace mesh::fuzz
