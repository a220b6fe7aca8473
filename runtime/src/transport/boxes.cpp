#include "transport/boxes.h"

#include <algorithm>

namespace meshrt {

namespace {

/// The piece of a turn: of all loops around it, the innermost fastest.
Piece piece_at(const Box& box, int64_t turn) {
  Piece piece = box.piece;
  for (auto loop = box.around.rbegin(); loop != box.around.rend(); ++loop) {
    piece.offset += turn % loop->count * loop->stride;
    turn /= loop->count;
  }
  return piece;
}

/// visit(piece, first and last of its bytes that lie within [begin, end), bytes before these since begin).
template <class Visit>
void each_piece(const Boxes& boxes, int64_t begin, int64_t end, Visit visit) {
  int64_t before = 0;  // bytes of the boxes so far
  for (const Box& box : boxes) {
    const int64_t bytes = box.piece.bytes(), pieces = box.pieces();
    for (int64_t turn = std::max<int64_t>(0, begin - before) / bytes; turn < pieces; ++turn) {
      const int64_t at = before + turn * bytes, first = std::max(begin, at), last = std::min(end, at + bytes);
      if (first >= last) break;
      visit(piece_at(box, turn), first - at, last - at, first - begin);
    }
    before += pieces * bytes;
  }
}

}  // namespace

int64_t Box::pieces() const {
  int64_t all = 1;
  for (const Loop& loop : around) all *= loop.count;
  return all;
}

int64_t bytes_of(const Boxes& boxes) {
  int64_t all = 0;
  for (const Box& box : boxes) all += box.bytes();
  return all;
}

int64_t end_of(const Boxes& boxes) {
  int64_t last = 0;
  for (const Box& box : boxes) {
    const Piece piece = piece_at(box, box.pieces() - 1);
    last = std::max(last, piece.offset + (piece.rows - 1) * piece.stride + piece.run);
  }
  return last;
}

bool is_contiguous(const Boxes& boxes) {
  return boxes.size() == 1 && boxes.front().piece.rows == 1 && boxes.front().pieces() == 1;
}

Boxes scaled(Boxes boxes, int64_t size) {
  for (Box& box : boxes) {
    box.piece.offset *= size;
    box.piece.run *= size;
    box.piece.stride *= size;
    for (Box::Loop& loop : box.around) loop.stride *= size;
  }
  return boxes;
}

void pack_boxes(std::byte* to, const std::byte* from, const Boxes& from_boxes, int64_t begin, int64_t end) {
  each_piece(from_boxes, begin, end, [&](const Piece& piece, int64_t first, int64_t last, int64_t done) {
    pack_piece(to + done, from, piece, first, last);
  });
}

void unpack_boxes(std::byte* to, const Boxes& to_boxes, const std::byte* from, int64_t begin, int64_t end) {
  each_piece(to_boxes, begin, end, [&](const Piece& piece, int64_t first, int64_t last, int64_t done) {
    unpack_piece(to, piece, from + done, first, last);
  });
}

void copy_boxes(std::byte* to, const Boxes& to_boxes, const std::byte* from, const Boxes& from_boxes) {
  for (size_t i = 0; i < to_boxes.size(); ++i)
    for (int64_t turn = 0, turns = to_boxes[i].pieces(); turn < turns; ++turn) {
      const Piece piece = piece_at(from_boxes[i], turn);
      copy_piece(to, piece_at(to_boxes[i], turn), from, piece, 0, piece.bytes());
    }
}

}  // namespace meshrt
