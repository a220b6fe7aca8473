// boxes.h: what a member of a permute takes from another: parts of an array that is cut along any of its dims.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/piece.h"

namespace meshrt {

/// A piece that stands again in every turn of loops around it.
struct Box {
  struct Loop {
    int64_t count, stride;
  };
  Piece piece;
  std::vector<Loop> around = {};  ///< outermost first
  int64_t pieces() const;
  int64_t bytes() const { return pieces() * piece.bytes(); }
};

/// One behind the other: their bytes are counted box by box, in each turn by turn.
using Boxes = std::vector<Box>;

int64_t bytes_of(const Boxes&);
/// Where the last of their bytes ends.
int64_t end_of(const Boxes&);
/// Whether all bytes lie side by side.
bool is_contiguous(const Boxes&);
/// With `size` bytes where one element was.
Boxes scaled(Boxes, int64_t size);

/// Bytes [begin, end) of boxes to a contiguous buffer, and from one.
void pack_boxes(std::byte* to, const std::byte* from, const Boxes& from_boxes, int64_t begin, int64_t end);
void unpack_boxes(std::byte* to, const Boxes& to_boxes, const std::byte* from, int64_t begin, int64_t end);

/// Bytes [begin, end) from one buffer to another, where boxes, their loops and pieces differ only in where they lie.
void copy_boxes(std::byte* to, const Boxes& to_boxes, const std::byte* from, const Boxes& from_boxes, int64_t begin,
                int64_t end);

}  // namespace meshrt
