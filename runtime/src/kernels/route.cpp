#include "meshrt/route.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "meshrt/threads.h"
#include "scratch.h"
#include "scratch_places.h"

namespace meshrt {

namespace {

int32_t* numbers(ScratchPlace place, int64_t count) {
  return static_cast<int32_t*>(Scratch::mine().bytes(place, static_cast<size_t>(count) * sizeof(int32_t)));
}

template <class T>
void route_group(const Routing& routing, int64_t group, const int32_t* chosen, const T* weight, int32_t* seat,
                 int32_t* source) {
  const auto& [outer, tokens, choices, experts, slots, once] = routing;
  const int64_t seats = experts * slots, all = tokens * choices;
  chosen += group * all, seat += group * all, source += group * seats;
  int32_t* const taken = numbers(route_taken_scratch, experts);
  int32_t* const order = numbers(route_order_scratch, tokens);
  std::iota(order, order + tokens, 0);
  std::fill_n(taken, experts, 0);
  std::fill_n(source, seats, -1);
  std::fill_n(seat, all, -1);
  for (int64_t choice = 0; choice < choices; ++choice) {
    if (weight != nullptr) {
      // NaN is smaller than all.
      const auto of = [&, choices = choices](int32_t token) {
        const T w = weight[group * all + token * choices + choice];
        return w == w ? w : -std::numeric_limits<T>::infinity();
      };
      std::sort(order, order + tokens, [&](int32_t a, int32_t b) {
        const T of_a = of(a), of_b = of(b);
        return of_a != of_b ? of_a > of_b : a < b;
      });
    }
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t token = order[i];
      const int32_t expert = chosen[token * choices + choice];
      if (expert < 0 || expert >= experts || taken[expert] == slots) continue;
      int32_t* const seats_of_token = seat + token * choices;
      if (once && std::any_of(seats_of_token, seats_of_token + choice, [](int32_t s) { return s >= 0; })) continue;
      const auto place = static_cast<int32_t>(expert * slots + taken[expert]++);
      seats_of_token[choice] = place;
      source[place] = static_cast<int32_t>(token);
    }
  }
}

}  // namespace

template <class T>
void route(const Routing& routing, const int32_t* chosen, const T* weight, int32_t* seat, int32_t* source) {
  const int64_t sorted = weight == nullptr ? 1 : std::bit_width(static_cast<uint64_t>(routing.tokens));
  const int64_t visited = routing.tokens * routing.choices * sorted + routing.experts * routing.slots;
  share(routing.outer, enough(visited), [&](int64_t first, int64_t last) {
    for (int64_t group = first; group < last; ++group) route_group(routing, group, chosen, weight, seat, source);
  });
}

template void route(const Routing&, const int32_t*, const float*, int32_t*, int32_t*);
template void route(const Routing&, const int32_t*, const double*, int32_t*, int32_t*);

}  // namespace meshrt
