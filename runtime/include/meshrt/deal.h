// deal.h: which elements of a dim each of its parts has. Everybody asks here: placements, loops, collectives, loaders,
// checkpoints.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshrt {

/// A stretch of the indices of a dim.
struct IndexRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  auto operator<=>(const IndexRange&) const = default;
};

/// How the elements of a dim are dealt to its parts.
/// block: part k of p of N begins at floor(N k / p).
/// rounds: as cards are, in so many rounds: of rounds * p blocks part k has k, p + k, 2 p + k, ...
/// zigzag: of 2 p blocks part k has k and 2 p - 1 - k, so that of a triangle all parts have equally much.
/// table: as is written down.
/// stretch: as blocks of a longer dim, in which element i stands at begin + every * i: part k has what block k has.
enum class Ownership : uint8_t { block, rounds, zigzag, table, stretch };
const char* name_of(Ownership);

struct Deal {
  Ownership ownership = Ownership::block;
  int64_t parts = 1;                                ///< that it deals to; of block and stretch: as many as one asks for
  int64_t rounds = 1;                               ///< of rounds
  std::vector<std::vector<IndexRange>> table = {};  ///< by part: together every element once, ascending within a part
  int64_t whole = 0, begin = 0, every = 1;          ///< of stretch: the size of the longer dim, the places in it
  explicit operator bool() const { return ownership != Ownership::block; }
  /// Whether positions are the indices, and any number of parts will do.
  bool in_order() const { return ownership == Ownership::block || ownership == Ownership::stretch; }
  auto operator<=>(const Deal&) const = default;
};
inline Deal rounds(int64_t parts, int64_t count) { return {Ownership::rounds, parts, count}; }
inline Deal zigzag(int64_t parts) { return {Ownership::zigzag, parts}; }
inline Deal stretch(int64_t whole, int64_t begin, int64_t every = 1) {
  return {Ownership::stretch, 1, 1, {}, whole, begin, every};
}

/// "zigzag:4", "rounds:4:2", "table:0..3,8..10;3..8", "stretch:12:3:1", "" of block; and what such a text says. One
/// that says nothing is a Failure.
std::string to_text(const Deal&);
Deal deal_of(std::string_view text);

// Elements are held in the order in which they are dealt: those of part 0 one behind the other, then those of part 1.
// Their places in it are called positions; of block and stretch they are the indices. So any stretch of whole parts is
// a stretch of positions, and what one of fewer owners holds is the parts of several of more.

/// Where part `index` of `parts` begins. `parts` divides those that a deal other than block deals to.
int64_t part_begin(int64_t size, const Deal& deal, int64_t index, int64_t parts);
/// How many elements that part has.
inline int64_t part_extent(int64_t size, const Deal& deal, int64_t index, int64_t parts) {
  return part_begin(size, deal, index + 1, parts) - part_begin(size, deal, index, parts);
}

/// The elements at positions [begin, end), in this order: as few ranges as there can be.
std::vector<IndexRange> ranges_at(int64_t size, const Deal& deal, int64_t begin, int64_t end);

/// The same one by one.
std::vector<int64_t> indices_at(int64_t size, const Deal& deal, int64_t begin, int64_t end);

/// Which part has an element, and where: for what takes the elements one by one, as a loop its turns.
class Owners {
 public:
  /// As the holder of part `own` of `parts` sees it.
  Owners(int64_t size, int64_t own, int64_t parts, const Deal& deal = {});
  int64_t owner(int64_t index) const { return owner_[static_cast<size_t>(index)]; }
  bool has(int64_t index) const { return owner(index) == own_; }
  /// Its place among those of the own part; 0 for what another part has.
  int64_t slot(int64_t index) const { return slot_[static_cast<size_t>(index)]; }

 private:
  int64_t own_;
  std::vector<int64_t> owner_, slot_;  // by element
};

}  // namespace meshrt
