#include <cstring>

#include "meshrt/checkpoint.h"
#include "meshrt/random.h"

namespace meshrt {

namespace {

template <class Bits>
uint64_t hash_as(const std::byte* elements, size_t count, uint64_t place) {
  constexpr uint64_t golden = 0x9e3779b97f4a7c15u;  // neighbouring places lie far apart
  uint64_t sum = 0, key = (place + 1) * golden;
  for (size_t i = 0; i < count; ++i, key += golden) {
    Bits bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    sum += detail::mix(bits + key);
  }
  return sum;
}

}  // namespace

uint64_t hash_elements(std::span<const std::byte> elements, size_t element_size, int64_t first) {
  const size_t count = elements.size() / element_size;
  const auto place = static_cast<uint64_t>(first);
  switch (element_size) {
    case 1: return hash_as<uint8_t>(elements.data(), count, place);
    case 2: return hash_as<uint16_t>(elements.data(), count, place);
    case 4: return hash_as<uint32_t>(elements.data(), count, place);
    default: return hash_as<uint64_t>(elements.data(), count, place);
  }
}

}  // namespace meshrt
