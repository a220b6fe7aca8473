// shares.h: which elements of a value that is redistributed who has before, and who needs them.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "meshrt/redistribute.h"

namespace meshrt {

/// Elements of a dim that lie side by side in a part before and in one afterwards, by their places there.
struct Stretch {
  int64_t at_sender, at_receiver, length;
};

/// What a part of a dim afterwards has of a part before.
struct Common {
  int64_t part;  // before
  int64_t elements;
  std::vector<Stretch> stretches;
};

/// One dim, part by part.
class DimShares {
 public:
  explicit DimShares(const MovedDim&);
  std::span<const Common> of(int64_t part_after) const { return shares_[static_cast<size_t>(part_after)]; }
  int64_t before(int64_t part) const { return before_[static_cast<size_t>(part)]; }  // elements of it
  int64_t after(int64_t part) const { return after_[static_cast<size_t>(part)]; }
  int64_t parts_before() const { return static_cast<int64_t>(before_.size()); }
  int64_t parts_after() const { return static_cast<int64_t>(after_.size()); }

 private:
  std::vector<int64_t> before_, after_;
  std::vector<std::vector<Common>> shares_;
};

/// Of how many parts before that part afterwards has something that has it of most.
int64_t most_senders(const MovedDim&);

/// A value, between the members of a group.
class Shares {
 public:
  Shares(const Group&, const std::vector<MovedDim>&);
  /// visit(sender, receiver, what they share of each dim): once for every pair of members, and for one and itself.
  using Visit = std::function<void(int sender, int receiver, std::span<const Common* const>)>;
  void each(const Visit& visit) const;
  /// Extents of what a member holds, by dim.
  std::vector<int64_t> held_before(int member) const;
  std::vector<int64_t> held_after(int member) const;
  /// How many members hold each part before.
  int64_t copies() const { return static_cast<int64_t>(copies_.size()); }
  const DimShares& of_dim(size_t dim) const { return shares_[dim]; }
  int64_t part(int member, const Split&) const;

 private:
  int place_of_copy(int member) const;

  const Group& group_;
  std::span<const MovedDim> dims_;
  std::vector<DimShares> shares_;
  std::vector<int> copies_;              // how much further, as members are numbered, the copies of a part lie
  std::vector<std::vector<int>> parts_;  // by dim: the same of its parts before
};

}  // namespace meshrt
