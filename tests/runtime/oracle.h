// oracle.h: what collectives have to give, worked out without the library: numbers that every rank can work out for
// every other one, and their reduction in the order that is promised.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "meshrt/types.h"

namespace meshrt::test {

using Bytes = std::vector<std::byte>;

/// A number that looks random, of two others.
uint64_t random_of(uint64_t a, uint64_t b);

template <class T>
T get(const std::byte* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

template <class T>
void put(std::byte* at, T x) {
  std::memcpy(at, &x, sizeof x);
}

/// What `rank` brings to the call of number `salt`.
Bytes contribution(Type type, int64_t count, int rank, uint64_t salt);

/// The contributions of all members, reduced in a balanced binary tree.
Bytes reduce_oracle(Type type, Reduce op, const std::vector<Bytes>& in);

}  // namespace meshrt::test
