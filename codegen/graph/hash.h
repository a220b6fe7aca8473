// hash.h: one number made of several, for tables.
#pragma once
#include <cstddef>

namespace mesh {

/// The hash with one more number in it (a step of FNV-1a, a number in place of a byte).
constexpr size_t hash_with(size_t hash, size_t more) { return (hash ^ more) * 1099511628211ull; }

}  // namespace mesh
