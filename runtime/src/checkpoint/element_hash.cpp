#include <atomic>
#include <cstring>

#include "meshrt/checkpoint.h"
#include "meshrt/random.h"
#include "meshrt/threads.h"

namespace meshrt {

namespace {

/// Sums modulo 2^64 are the same in every order.
template <class Bits>
uint64_t hash_as(const std::byte* elements, int64_t count, uint64_t place) {
  constexpr uint64_t golden = 0x9e3779b97f4a7c15u;  // neighbouring places lie far apart
  std::atomic<uint64_t> sum = 0;
  share(count, elements_of_a_thread, [&](int64_t begin, int64_t end) {
    uint64_t of_stretch = 0, key = (place + static_cast<uint64_t>(begin) + 1) * golden;
    for (int64_t i = begin; i < end; ++i, key += golden) {
      Bits bits;
      std::memcpy(&bits, elements + static_cast<size_t>(i) * sizeof bits, sizeof bits);
      of_stretch += detail::mix(bits + key);
    }
    sum.fetch_add(of_stretch, std::memory_order_relaxed);
  });
  return sum;
}

}  // namespace

uint64_t hash_elements(std::span<const std::byte> elements, size_t element_size, int64_t first) {
  const auto count = static_cast<int64_t>(elements.size() / element_size);
  const auto place = static_cast<uint64_t>(first);
  switch (element_size) {
    case 1: return hash_as<uint8_t>(elements.data(), count, place);
    case 2: return hash_as<uint16_t>(elements.data(), count, place);
    case 4: return hash_as<uint32_t>(elements.data(), count, place);
    default: return hash_as<uint64_t>(elements.data(), count, place);
  }
}

}  // namespace meshrt
