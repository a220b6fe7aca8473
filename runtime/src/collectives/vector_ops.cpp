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

float f32_of_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
uint32_t bits_of_f32(float x) { return __builtin_bit_cast(uint32_t, x); }

struct Bf16 {
  using Stored = uint16_t;
  static float load(uint16_t x) { return f32_of_bits(static_cast<uint32_t>(x) << 16); }
  static uint16_t store(float x) {  // to nearest, ties to even; a NaN stays one
    const uint32_t bits = bits_of_f32(x);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<uint16_t>(x != x ? (bits >> 16) | 0x40 : rounded);
  }
};

struct F16 {
  using Stored = uint16_t;
  static float load(uint16_t x) {
    const uint32_t sign = static_cast<uint32_t>(x & 0x8000) << 16, rest = x & 0x7fff;
    if (rest >= 0x7c00) return f32_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    // Exponents move by 112; a product by a power of two does it for subnormal numbers as well.
    return f32_of_bits(sign | bits_of_f32(f32_of_bits(rest << 13) * 0x1p112F));
  }
  static uint16_t store(float x) {  // to nearest, ties to even
    const uint32_t bits = bits_of_f32(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
    if (rest >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and above
    if (rest < 0x38800000) {                                              // subnormal: let the addition round
      const uint32_t sum = bits_of_f32(f32_of_bits(rest) + 0.5F);
      return static_cast<uint16_t>(sign | (sum - bits_of_f32(0.5F)));
    }
    return static_cast<uint16_t>(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
  }
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

// Types that the processor adds as they are stored: four vectors at a time, then elements.
template <Reduce op, class T>
void reduce_plain(std::byte* to, const std::byte* const* from, int sources, int64_t count) {
  typedef T Vector __attribute__((vector_size(width)));
  constexpr int64_t lane = width / sizeof(T), group = 4 * lane;
  int64_t i = 0;
  for (; i + group <= count; i += group) {
    const std::byte* first = from[0] + i * sizeof(T);
    Vector a = load<Vector>(first), b = load<Vector>(first + width), c = load<Vector>(first + 2 * width),
           d = load<Vector>(first + 3 * width);
    for (int s = 1; s < sources; ++s) {
      const std::byte* next = from[s] + i * sizeof(T);
      a = apply<op>(a, load<Vector>(next));
      b = apply<op>(b, load<Vector>(next + width));
      c = apply<op>(c, load<Vector>(next + 2 * width));
      d = apply<op>(d, load<Vector>(next + 3 * width));
    }
    std::byte* out = to + i * sizeof(T);
    store(out, a);
    store(out + width, b);
    store(out + 2 * width, c);
    store(out + 3 * width, d);
  }
  for (; i < count; ++i) {
    T x = load<T>(from[0] + i * sizeof(T));
    for (int s = 1; s < sources; ++s) x = static_cast<T>(apply<op>(x, load<T>(from[s] + i * sizeof(T))));
    store(to + i * sizeof(T), x);
  }
}

// Types that add up in another one.
template <Reduce op, class Element>
void reduce_converted(std::byte* to, const std::byte* const* from, int sources, int64_t count) {
  using Stored = typename Element::Stored;
  using Held = decltype(Element::load(Stored{}));
  constexpr int64_t block = 256;
  Held held[block];
  for (int64_t i = 0; i < count; i += block) {
    const int64_t n = count - i < block ? count - i : block;
    for (int64_t e = 0; e < n; ++e) held[e] = Element::load(load<Stored>(from[0] + (i + e) * sizeof(Stored)));
    for (int s = 1; s < sources; ++s)
      for (int64_t e = 0; e < n; ++e)
        held[e] =
            static_cast<Held>(apply<op>(held[e], Element::load(load<Stored>(from[s] + (i + e) * sizeof(Stored)))));
    for (int64_t e = 0; e < n; ++e) store(to + (i + e) * sizeof(Stored), Element::store(held[e]));
  }
}

template <Reduce op>
void reduce_type(Type type, std::byte* to, const std::byte* const* from, int sources, int64_t count) {
  constexpr bool sums = op == Reduce::sum;  // sums wrap around, so they are taken without signs
  switch (type) {
    case Type::f32: return reduce_plain<op, float>(to, from, sources, count);
    case Type::f64: return reduce_plain<op, double>(to, from, sources, count);
    case Type::i32:
      if constexpr (sums) return reduce_plain<op, uint32_t>(to, from, sources, count);
      return reduce_plain<op, int32_t>(to, from, sources, count);
    case Type::i64:
      if constexpr (sums) return reduce_plain<op, uint64_t>(to, from, sources, count);
      return reduce_plain<op, int64_t>(to, from, sources, count);
    case Type::u8: return reduce_plain<op, uint8_t>(to, from, sources, count);
    case Type::bf16: return reduce_converted<op, Bf16>(to, from, sources, count);
    case Type::f16: return reduce_converted<op, F16>(to, from, sources, count);
    case Type::boolean:  // the sum of truths is "any"
      if constexpr (sums) return reduce_converted<Reduce::max, Bool>(to, from, sources, count);
      return reduce_converted<op, Bool>(to, from, sources, count);
  }
}

void reduce(Type type, Reduce op, std::byte* to, const std::byte* const* from, int sources, int64_t count) {
  switch (op) {
    case Reduce::sum: return reduce_type<Reduce::sum>(type, to, from, sources, count);
    case Reduce::max: return reduce_type<Reduce::max>(type, to, from, sources, count);
    case Reduce::min: return reduce_type<Reduce::min>(type, to, from, sources, count);
  }
}

}  // namespace

extern const VectorOps ops;
const VectorOps ops{reduce};

}  // namespace meshrt::MESHRT_VARIANT
