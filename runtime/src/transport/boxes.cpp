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

/// visit(number of the box, turn, first and last of its piece's bytes that lie within [begin, end), bytes before these
/// since begin).
template <class Visit>
void each_turn(const Boxes& boxes, int64_t begin, int64_t end, Visit visit) {
  int64_t before = 0;  // bytes of the boxes so far
  for (size_t i = 0; i < boxes.size(); ++i) {
    const int64_t bytes = boxes[i].piece.bytes(), pieces = boxes[i].pieces();
    if (bytes == 0) continue;
    for (int64_t turn = std::max<int64_t>(0, begin - before) / bytes; turn < pieces; ++turn) {
      const int64_t at = before + turn * bytes, first = std::max(begin, at), last = std::min(end, at + bytes);
      if (first >= last) break;
      visit(i, turn, first - at, last - at, first - begin);
    }
    before += pieces * bytes;
  }
}

/// The same with the piece in place of box and turn.
template <class Visit>
void each_piece(const Boxes& boxes, int64_t begin, int64_t end, Visit visit) {
  each_turn(boxes, begin, end, [&](size_t i, int64_t turn, int64_t first, int64_t last, int64_t done) {
    visit(piece_at(boxes[i], turn), first, last, done);
  });
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

void copy_boxes(std::byte* to, const Boxes& to_boxes, const std::byte* from, const Boxes& from_boxes, int64_t begin,
                int64_t end) {
  each_turn(to_boxes, begin, end, [&](size_t i, int64_t turn, int64_t first, int64_t last, int64_t) {
    copy_piece(to, piece_at(to_boxes[i], turn), from, piece_at(from_boxes[i], turn), first, last);
  });
}

}  // namespace meshrt
