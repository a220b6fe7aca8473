#include "collectives/piece.h"

#include <cstring>

namespace meshrt {

void pack_piece(std::byte* to, const std::byte* from, const Piece& from_piece, int64_t begin, int64_t end) {
  each_stretch(from_piece, begin, end,
               [&](int64_t done, int64_t place, int64_t length) { std::memcpy(to + done, from + place, length); });
}

void unpack_piece(std::byte* to, const Piece& to_piece, const std::byte* from, int64_t begin, int64_t end) {
  each_stretch(to_piece, begin, end,
               [&](int64_t done, int64_t place, int64_t length) { std::memcpy(to + place, from + done, length); });
}

void copy_piece(std::byte* to, const Piece& to_piece, const std::byte* from, const Piece& from_piece, int64_t begin,
                int64_t end) {
  each_stretch(to_piece, begin, end, [&](int64_t done, int64_t place, int64_t length) {
    if (from_piece.rows > 1) return pack_piece(to + place, from, from_piece, begin + done, begin + done + length);
    const std::byte* start = from + from_piece.offset + begin + done;
    if (start != to + place) std::memcpy(to + place, start, length);  // equal: a member's part is already in its place
  });
}

}  // namespace meshrt
