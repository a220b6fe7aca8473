// Compiled three times, with MESHRT_VARIANT one of portable, avx2, avx512 and the compiler flags to match
// (meson.build). Nothing here may call an inline function of the standard library: the linker could keep the copy of
// the widest variant and run it on a processor without it.
#include "collectives/vector_ops.h"

namespace meshrt::MESHRT_VARIANT {

namespace {

#if defined(__AVX512F__)
constexpr int64_t width = 64;
#elif defined(__AVX2__)
constexpr int64_t width = 32;
#else
constexpr int64_t width = 16;
#endif

// ---- elements -------------------------------------------------------------------------------------------------------

// Of 16 bits: T is Bfloat16 or Float16.
template <class T>
struct AddedInF32 {
  using Stored = uint16_t;
  static float load(uint16_t x) { return static_cast<float>(__builtin_bit_cast(T, x)); }
  static uint16_t store(float x) { return T(x).bits; }
};

struct Bool {
  using Stored = uint8_t;
  static uint8_t load(uint8_t x) { return x != 0; }
  static uint8_t store(uint8_t x) { return x; }
};

// T is an element or a vector of elements. A NaN of either side stays.
template <Reduce op, class T>
T apply(T a, T b) {
  if constexpr (op == Reduce::sum) return a + b;
  if constexpr (op == Reduce::max) return (a < b) | (b != b) ? b : a;
  if constexpr (op == Reduce::min) return (b < a) | (b != b) ? b : a;
}

// ---- reduce ---------------------------------------------------------------------------------------------------------

template <class T>
T load(const std::byte* from) {
  T x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}

template <class T>
void store(std::byte* to, T x) {
  __builtin_memcpy(to, &x, sizeof x);
}

// What sources 0, 1, .. give, combined in a binary tree over their order: of seven ((0 1) (2 3)) ((4 5) 6). So every
// algorithm that combines neighbours first, whatever it sends, gives the same bits.
template <Reduce op, class Load>
auto combined(int sources, Load load_source) {
  constexpr int deepest = 32;
  decltype(load_source(0)) waiting[deepest];  // of 2^h sources each, the longest first
  int height = 0;
  for (int s = 0; s < sources; ++s) {
    auto x = load_source(s);
    for (int n = s; n & 1; n >>= 1) x = apply<op>(waiting[--height], x);
    waiting[height++] = x;
  }
  auto x = waiting[--height];
  while (height > 0) x = apply<op>(waiting[--height], x);
  return x;
}

// Two and four sources, the most frequent groups, stay in registers; `fixed` is 0 for any other number.
template <Reduce op, int fixed, class Load>
auto combined(int sources, Load load_source) {
  if constexpr (fixed == 2) return apply<op>(load_source(0), load_source(1));
  else if constexpr (fixed == 4)
    return apply<op>(apply<op>(load_source(0), load_source(1)), apply<op>(load_source(2), load_source(3)));
  else return combined<op>(sources, load_source);
}

// Where a sum goes: to one place, or back to all `sources` that it was made of.
struct OnePlace {
  std::byte* to;
  template <int fixed, class T>
  void put(int64_t at, T x, int) const {
    store(to + at, x);
  }
};
struct EverySource {
  std::byte* const* to;
  template <int fixed, class T>
  void put(int64_t at, T x, int sources) const {
    for (int s = 0; s < (fixed ? fixed : sources); ++s) store(to[s] + at, x);
  }
};

// Types that the processor adds as they are stored: four vectors at a time, then elements.
template <Reduce op, class T, int fixed, class Place>
void reduce_plain(const Place& place, const std::byte* const* from, int sources, int64_t count) {
  typedef T Vector __attribute__((vector_size(width)));
  constexpr int64_t vectors = 4, group = vectors * width, size = sizeof(T);
  const int64_t bytes = count * size;
  int64_t at = 0;
  for (; at + group <= bytes; at += group) {
    Vector sums[vectors];
    for (int64_t v = 0; v < vectors; ++v)
      sums[v] = combined<op, fixed>(sources, [&](int s) { return load<Vector>(from[s] + at + v * width); });
    for (int64_t v = 0; v < vectors; ++v) place.template put<fixed>(at + v * width, sums[v], sources);
  }
  for (; at < bytes; at += size)
    place.template put<fixed>(at, combined<op, fixed>(sources, [&](int s) { return load<T>(from[s] + at); }), sources);
}

template <Reduce op, class T, class Place>
void reduce_plain(const Place& place, const std::byte* const* from, int sources, int64_t count) {
  if (sources == 2) return reduce_plain<op, T, 2>(place, from, sources, count);
  if (sources == 4) return reduce_plain<op, T, 4>(place, from, sources, count);
  reduce_plain<op, T, 0>(place, from, sources, count);
}

// Elements of a type that adds up in another one.
template <class Held, int count>
struct Block {
  Held value[count];
};

template <Reduce op, class Held, int count>
Block<Held, count> apply(const Block<Held, count>& a, const Block<Held, count>& b) {
  Block<Held, count> result;
  for (int i = 0; i < count; ++i) result.value[i] = static_cast<Held>(apply<op>(a.value[i], b.value[i]));
  return result;
}

template <Reduce op, class Element, class Place>
void reduce_converted(const Place& place, const std::byte* const* from, int sources, int64_t count) {
  using Stored = typename Element::Stored;
  using Held = decltype(Element::load(Stored{}));
  constexpr int block = 64;
  for (int64_t i = 0; i < count; i += block) {
    const auto n = static_cast<int>(count - i < block ? count - i : block);
    const auto x = combined<op>(sources, [&](int s) {
      Block<Held, block> held{};
      for (int e = 0; e < n; ++e) held.value[e] = Element::load(load<Stored>(from[s] + (i + e) * sizeof(Stored)));
      return held;
    });
    for (int e = 0; e < n; ++e) place.template put<0>((i + e) * sizeof(Stored), Element::store(x.value[e]), sources);
  }
}

template <Reduce op, class Place>
void reduce_type(Type type, const Place& place, const std::byte* const* from, int sources, int64_t count) {
  constexpr bool sums = op == Reduce::sum;  // sums wrap around, so they are taken without signs
  switch (type) {
    case Type::f32: return reduce_plain<op, float>(place, from, sources, count);
    case Type::f64: return reduce_plain<op, double>(place, from, sources, count);
    case Type::i32:
      if constexpr (sums) return reduce_plain<op, uint32_t>(place, from, sources, count);
      return reduce_plain<op, int32_t>(place, from, sources, count);
    case Type::i64:
      if constexpr (sums) return reduce_plain<op, uint64_t>(place, from, sources, count);
      return reduce_plain<op, int64_t>(place, from, sources, count);
    case Type::u8: return reduce_plain<op, uint8_t>(place, from, sources, count);
    case Type::bf16: return reduce_converted<op, AddedInF32<Bfloat16>>(place, from, sources, count);
    case Type::f16: return reduce_converted<op, AddedInF32<Float16>>(place, from, sources, count);
    case Type::boolean:  // the sum of truths is "any"
      if constexpr (sums) return reduce_converted<Reduce::max, Bool>(place, from, sources, count);
      return reduce_converted<op, Bool>(place, from, sources, count);
  }
}

template <class Place>
void reduce_to(const Place& place, Type type, Reduce op, const std::byte* const* from, int sources, int64_t count) {
  switch (op) {
    case Reduce::sum: return reduce_type<Reduce::sum>(type, place, from, sources, count);
    case Reduce::max: return reduce_type<Reduce::max>(type, place, from, sources, count);
    case Reduce::min: return reduce_type<Reduce::min>(type, place, from, sources, count);
  }
}

void reduce(Type type, Reduce op, std::byte* to, const std::byte* const* from, int sources, int64_t count) {
  reduce_to(OnePlace{to}, type, op, from, sources, count);
}

void reduce_everywhere(Type type, Reduce op, std::byte* const* values, int members, int64_t count) {
  reduce_to(EverySource{values}, type, op, values, members, count);
}

}  // namespace

extern const VectorOps ops;
const VectorOps ops{reduce, reduce_everywhere};

}  // namespace meshrt::MESHRT_VARIANT
