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
};

/// The keys and values that all ranks of a group meet, one part a turn, each rank its own first:
///   do { attend(part.shape(..), ..) } while (part.next());
class RingParts {
 public:
  /// `begin`: of the parts, as Blocks::begin. Starts to hand on. All members make the same ring.
  RingParts(Rank&, const Group&, Site, std::span<const int64_t> begin, std::vector<Circulating<2>>, Type);
  RingParts(const RingParts&) = delete;
  RingParts& operator=(const RingParts&) = delete;

  /// On to the part that came meanwhile, if there is one; false after the last.
  bool next();

  /// Global indices of the part at hand.
  IndexRange keys() const { return range_of(turn_); }
  /// The shape with the keys of this part, added to what the parts before gave.
  AttentionShape shape(AttentionShape of_own) const;
  /// Elements between neighbours along a dim of a value, which are so many in the rank's own part.
  int64_t stride(size_t value, int64_t of_own) const;
  HeadStrides strides(size_t value, const HeadStrides& of_own) const;
  /// Where the part of a value lies.
  template <class T>
  const T* at(size_t value) const {
    return static_cast<const T*>(place(value, turn_));
  }

 private:
  IndexRange range_of(int turn) const;
  const void* place(size_t value, int turn) const;
  void hand_on();

  Rank& rank_;
  const Group& group_;
  Site site_;
  std::span<const int64_t> begin_;
  std::vector<Circulating<2>> values_;
  Type type_;
  int turn_ = 0;
  std::vector<Ticket> under_way_;
};

/// The gradients of those keys and values: where each turn puts what this rank adds to the part at hand. In the end the
/// sums of all ranks are in the parts' own places.
class RingSums {
 public:
  /// As RingParts, beside which it goes.
  RingSums(Rank&, const Group&, Site, std::span<const int64_t> begin, std::vector<Circulating<3>>, Type);
  RingSums(const RingSums&) = delete;
  RingSums& operator=(const RingSums&) = delete;

  template <class T>
  T* at(size_t value) const {
    return static_cast<T*>(turn_ == 0 ? values_[value].own : values_[value].places[0]);
  }
  /// The turn is over: hands on what it made, with what the ranks before have added to the part.
  void next();

 private:
  int64_t count_of(const Circulating<3>&, int turn) const;
  void await();
  void add(void* to, const void* more, int64_t count) const;

  Rank& rank_;
  const Group& group_;
  Site site_;
  std::span<const int64_t> begin_;
  std::vector<Circulating<3>> values_;  // of their places what this turn adds is the first, what comes the second
  Type type_;
  int turn_ = 0;
  std::vector<Ticket> under_way_;
};

}  // namespace meshrt
