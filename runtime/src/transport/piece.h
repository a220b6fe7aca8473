// piece.h: the part of a buffer that one member takes from another: equal runs of bytes at a fixed stride.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace meshrt {

/// `rows` runs of `run` bytes, `stride` apart, the first at `offset`. Bytes of a piece are counted along its runs.
struct Piece {
  int64_t offset = 0, rows = 0, run = 0, stride = 0;
  int64_t bytes() const { return rows * run; }
};

/// Walks bytes [begin, end) of a piece in stretches that are contiguous: visit(bytes before it since begin, its place,
/// length).
template <class Visit>
void each_stretch(const Piece& piece, int64_t begin, int64_t end, Visit visit) {
  int64_t row = begin / std::max<int64_t>(piece.run, 1), within = begin - row * piece.run;
  for (int64_t at = begin; at < end; ++row, within = 0) {
    const int64_t length = std::min(piece.run - within, end - at);
    visit(at - begin, piece.offset + row * piece.stride + within, length);
    at += length;
  }
}

/// Bytes [begin, end) of a piece to a contiguous buffer, and from one.
void pack_piece(std::byte* to, const std::byte* from, const Piece& from_piece, int64_t begin, int64_t end);
void unpack_piece(std::byte* to, const Piece& to_piece, const std::byte* from, int64_t begin, int64_t end);

/// Bytes [begin, end) from one buffer to another; the pieces have equally many bytes, in runs of their own.
void copy_piece(std::byte* to, const Piece& to_piece, const std::byte* from, const Piece& from_piece, int64_t begin,
                int64_t end);

}  // namespace meshrt
