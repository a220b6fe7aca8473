// route.h: which token has which slot of which expert. Every expert has a number of slots, and takes what chooses it in
// order until they are full.
#pragma once
#include <cstdint>

namespace meshrt {

/// [outer] groups of tokens, each of which makes `choices` choices among `experts` experts with `slots` slots each.
struct Routing {
  int64_t outer, tokens, choices, experts, slots;
  bool once = false;  // a token takes only the first of its choices that has room
};

/// seat [outer, tokens, choices] = the expert's slot that a choice gets, counted over all experts, and -1 where none is
/// left or the choice is no expert (-1); source [outer, experts, slots] = the token that sits there, and -1. First
/// choices of all tokens come before second ones; among equals the earlier token, or, where `weight` [outer, tokens,
/// choices] is given, the one of larger weight.
template <class T>
void route(const Routing& routing, const int32_t* chosen, const T* weight, int32_t* seat, int32_t* source);

}  // namespace meshrt
