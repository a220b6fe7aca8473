// ring.h: attention whose keys and values are split over the ranks that have the queries. Nobody ever holds all of
// them: part after part goes round the ranks of a group, each to the next one, while it is worked on. Gradients of keys
// go round behind them, each rank adding its own.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "meshrt/attention.h"
#include "meshrt/collectives.h"
#include "meshrt/deal.h"

namespace meshrt {

/// A value [outer, own part, inner], row-major, of whose middle dim each rank has a part, with places for parts of
/// others, each large enough for the largest.
template <size_t count>
struct Circulating {
  void* own;
  std::array<void*, count> places;
  int64_t outer, inner;

  /// Elements between neighbours along a dim, which are `of_own` in the own part of so many rows, in one of `rows`: a
  /// dim lies within a row or around all rows.
  int64_t stride(int64_t of_own, int64_t own_rows, int64_t rows) const {
    return of_own < own_rows * inner ? of_own : of_own / own_rows * rows;
  }
  HeadStrides strides(const HeadStrides& of_own, int64_t own_rows, int64_t rows) const {
    return {stride(of_own.batch, own_rows, rows), of_own.seq, stride(of_own.head, own_rows, rows)};
  }
};

template <size_t count>
Circulating<count> circulating(void* own, const std::array<void*, count>& places, int64_t outer, int64_t inner) {
  return {own, places, outer, inner};
}

/// The keys and values that the ranks of a group meet, one part a turn, each rank its own first; of a part that is
/// dealt in several stretches one stretch after the other:
///   do { attend(part.shape(..), ..) } while (part.next());
class RingParts {
 public:
  /// `begin`: of the parts, as Blocks::begin, positions of a dim that is dealt so. `meets`: beside its own part each
  /// member meets those of the members so many before it, and no others, ascending; none: all of them. Starts to hand
  /// on. All members make the same ring.
  RingParts(Rank&, const Group&, Site, std::span<const int64_t> begin, std::vector<Circulating<2>>, Type,
            const Deal& = {}, std::vector<int> meets = {});
  RingParts(const RingParts&) = delete;
  RingParts& operator=(const RingParts&) = delete;

  /// On to the next stretch, or to the part that came meanwhile; false after the last.
  bool next();

  /// Global indices of the keys at hand.
  IndexRange keys() const { return stretches_[stretch_]; }
  /// The shape with these keys, added to what those before gave.
  AttentionShape shape(AttentionShape of_own) const;
  /// Of the part at hand, from those of the rank's own.
  int64_t stride(size_t value, int64_t of_own) const {
    return values_[value].stride(of_own, rows_of(0), rows_of(turn_));
  }
  HeadStrides strides(size_t value, const HeadStrides& of_own) const {
    return values_[value].strides(of_own, rows_of(0), rows_of(turn_));
  }
  /// Where the keys of a value lie.
  template <class T>
  const T* at(size_t value) const {
    return static_cast<const T*>(place(value, turn_)) + row_ * values_[value].inner;
  }

 private:
  friend class RingSums;
  size_t turns() const { return distance_.size() - 1; }
  bool is_last_turn() const { return turn_ + 1 == turns(); }
  int64_t rows_of(size_t turn) const;
  int next_member() const;
  int member_before() const;
  const void* place(size_t value, size_t turn) const;
  void begin_turn();
  bool is_last_stretch() const { return stretch_ + 1 == stretches_.size(); }

  Rank& rank_;
  const Group& group_;
  Site site_;
  std::span<const int64_t> begin_;
  std::vector<Circulating<2>> values_;
  Type type_;
  Deal deal_;
  std::vector<int> distance_;  // by turn: how many members before this one has the part as its own; at last it is home
  size_t turn_ = 0;
  std::vector<IndexRange> stretches_;  // of the part at hand
  size_t stretch_ = 0;
  int64_t row_ = 0;  // of the part, where the stretch begins
  std::vector<Ticket> under_way_;
};

/// The gradients of those keys and values: where each turn puts what this rank adds to the part at hand. In the end the
/// sums of all ranks are in the parts' own places.
class RingSums {
 public:
  RingSums(const RingParts&, Site, std::vector<Circulating<3>>, Type);
  RingSums(const RingSums&) = delete;
  RingSums& operator=(const RingSums&) = delete;

  int64_t stride(size_t value, int64_t of_own) const {
    return values_[value].stride(of_own, parts_.rows_of(0), parts_.rows_of(parts_.turn_));
  }
  HeadStrides strides(size_t value, const HeadStrides& of_own) const {
    return values_[value].strides(of_own, parts_.rows_of(0), parts_.rows_of(parts_.turn_));
  }
  template <class T>
  T* at(size_t value) const {
    const Circulating<3>& of = values_[value];
    return static_cast<T*>(parts_.turn_ == 0 ? of.own : of.places[0]) + parts_.row_ * of.inner;
  }
  /// Before the parts' next(): hands on what a turn that is over made, with what the ranks before have added.
  void next();

 private:
  int64_t count_of(const Circulating<3>&, size_t turn) const;
  void add(void* to, const void* more, int64_t count) const;

  const RingParts& parts_;
  Site site_;
  std::vector<Circulating<3>> values_;  // of their places what this turn adds is the first, what comes the second
  Type type_;
  std::vector<Ticket> under_way_;
};

}  // namespace meshrt
