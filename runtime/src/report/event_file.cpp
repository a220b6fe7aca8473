#include "report/event_file.h"

#include <array>
#include <bit>
#include <cstring>

namespace meshrt {

namespace {

constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0);
    table[byte] = rest;
  }
  return table;
}();

// ---- little-endian numbers, and fields of protocol buffers ---------------------------------------------------------

template <class Number>
std::string little_endian(Number number) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}

enum Wire { whole_number = 0, eight_bytes = 1, text = 2, four_bytes = 5 };

std::string key(int field, Wire wire) { return varint(static_cast<uint64_t>(field << 3 | wire)); }
std::string text_field(int field, const std::string& bytes) { return key(field, text) + varint(bytes.size()) + bytes; }

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary. Summary: 1 value. Value: 1 tag, 2 simple_value.
std::string event_of(double seconds, int64_t step) {
  return key(1, eight_bytes) + little_endian(seconds) + key(2, whole_number) + varint(static_cast<uint64_t>(step));
}

// TFRecord stores a CRC so that one of bytes that hold CRCs themselves is still a good one.
std::string masked_crc(std::string_view bytes) { return little_endian(std::rotr(crc32c(bytes), 15) + 0xa282ead8u); }

std::string record(const std::string& event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  return length + masked_crc(length) + event + masked_crc(event);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc_table[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

EventFile::EventFile(const std::string& path)
    : file_(path, 0, record(key(1, eight_bytes) + little_endian(0.0) + text_field(3, "brain.Event:2"))) {}

void EventFile::write(int64_t step, double seconds, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars)
    summary +=
        text_field(1, text_field(1, scalar.tag) + key(2, four_bytes) + little_endian(static_cast<float>(scalar.value)));
  file_.add(record(event_of(seconds, step) + text_field(5, summary)));
}

}  // namespace meshrt
