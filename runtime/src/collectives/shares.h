// shares.h: which elements of a value that is redistributed who has before, and who needs them.
#pragma once
#include <cstdint>
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
  std::span<const Stretch> stretches;
};

/// One dim, part by part. Prices of movements between thousands of parts are made of it: all that parts have in common
/// lies side by side.
class DimShares {
 public:
  explicit DimShares(const MovedDim&);
  DimShares(DimShares&&) = default;
  /// Ascending by parts before.
  std::span<const Common> of(int64_t part_after) const {
    const auto part = static_cast<size_t>(part_after);
    return std::span(common_).subspan(first_[part], first_[part + 1] - first_[part]);
  }
  int64_t before(int64_t part) const { return before_[static_cast<size_t>(part)]; }  // elements of it
  int64_t after(int64_t part) const { return after_[static_cast<size_t>(part)]; }
  int64_t parts_before() const { return static_cast<int64_t>(before_.size()); }
  int64_t parts_after() const { return static_cast<int64_t>(after_.size()); }

 private:
  std::vector<int64_t> before_, after_;
  std::vector<Common> common_;
  std::vector<size_t> first_{0};  // of a part afterwards in `common_`, and where the last one ends
  std::vector<Stretch> stretches_;
};

/// Of how many parts before that part afterwards has something that has it of most.
int64_t most_senders(const MovedDim&);

/// A value, between the members of a group.
class Shares {
 public:
  Shares(const Group&, const std::vector<MovedDim>&);
  /// visit(sender, receiver, what they share of each dim): once for every pair of members, and for one and itself.
  template <class Visit>
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
  int sender_of(int first, int receiver, int own_copy, std::span<const int64_t> given) const;

  const Group& group_;
  std::span<const MovedDim> dims_;
  std::vector<DimShares> shares_;
  std::vector<int> copies_;              // how much further, as members are numbered, the copies of a part lie
  std::vector<std::vector<int>> parts_;  // by dim: the same of its parts before
};

template <class Visit>
void Shares::each(const Visit& visit) const {
  std::vector<int64_t> given(static_cast<size_t>(group_.size()), 0);
  std::vector<std::span<const Common>> needed(dims_.size());
  std::vector<const Common*> shared(dims_.size());
  for (int receiver = 0; receiver < group_.size(); ++receiver) {
    bool any = true;
    for (size_t i = 0; i < dims_.size(); ++i) {
      needed[i] = shares_[i].of(part(receiver, dims_[i].after));
      any = any && !needed[i].empty();
      shared[i] = needed[i].data();
    }
    const int own_copy = place_of_copy(receiver);
    while (any) {  // every choice of one part before of each dim, the last dim fastest
      int first = 0;
      int64_t elements = 1;
      for (size_t i = 0; i < dims_.size(); ++i) {
        first += parts_[i][static_cast<size_t>(shared[i]->part)];
        elements *= shared[i]->elements;
      }
      const int sender = sender_of(first, receiver, own_copy, given);
      if (sender != receiver) given[static_cast<size_t>(sender)] += elements;
      visit(sender, receiver, std::span<const Common* const>(shared));
      any = false;
      for (size_t i = dims_.size(); i-- > 0 && !any;) {
        any = ++shared[i] != needed[i].data() + needed[i].size();
        if (!any) shared[i] = needed[i].data();
      }
    }
  }
}

}  // namespace meshrt
