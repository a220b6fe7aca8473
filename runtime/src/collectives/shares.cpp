#include "collectives/shares.h"

#include <algorithm>

namespace meshrt {

namespace {

int64_t parts_of(const Split& split) {
  int64_t parts = 1;
  for (const Axis& axis : split.axes) parts *= axis.size;
  return parts;
}

/// Where each part begins, and the last one ends.
std::vector<int64_t> begins_of(int64_t size, const Split& split) {
  const int64_t parts = parts_of(split);
  std::vector<int64_t> begins(static_cast<size_t>(parts + 1));
  const bool even = !split.deal && size % parts == 0;
  for (int64_t part = 0; part <= parts; ++part)
    begins[static_cast<size_t>(part)] = even ? size / parts * part : part_begin(size, split.deal, part, parts);
  return begins;
}

std::vector<int64_t> extents_of(const std::vector<int64_t>& begins) {
  std::vector<int64_t> extents(begins.size() - 1);
  for (size_t part = 0; part < extents.size(); ++part) extents[part] = begins[part + 1] - begins[part];
  return extents;
}

/// visit(range) for the elements at these positions.
template <class Visit>
void each_range(int64_t size, const Deal& deal, int64_t begin, int64_t end, const Visit& visit) {
  if (begin == end) return;
  if (deal.in_order()) return visit(IndexRange{begin, end});
  for (const IndexRange& range : ranges_at(size, deal, begin, end)) visit(range);
}

/// Elements side by side, and where they lie in their part.
struct Held {
  IndexRange range;
  int64_t part, at;
};

std::vector<Held> in_order(int64_t size, const Deal& deal, const std::vector<int64_t>& begins) {
  std::vector<Held> all;
  for (size_t part = 0; part + 1 < begins.size(); ++part) {
    int64_t at = 0;
    each_range(size, deal, begins[part], begins[part + 1], [&](const IndexRange& range) {
      all.push_back({range, static_cast<int64_t>(part), at});
      at += range.size();
    });
  }
  if (!deal.in_order()) std::ranges::sort(all, {}, &Held::range);
  return all;
}

}  // namespace

DimShares::DimShares(const MovedDim& dim) {
  const std::vector<int64_t> before = begins_of(dim.size, dim.before), after = begins_of(dim.size, dim.after);
  before_ = extents_of(before);
  after_ = extents_of(after);
  const std::vector<Held> held = in_order(dim.size, dim.before.deal, before);
  struct Shared {
    int64_t part;  // before
    Stretch stretch;
  };
  std::vector<Shared> shared;  // of one part afterwards
  for (size_t part = 0; part < after_.size(); ++part) {
    shared.clear();
    int64_t at = 0;
    each_range(dim.size, dim.after.deal, after[part], after[part + 1], [&](const IndexRange& needed) {
      auto has = std::ranges::upper_bound(held, needed.begin, {}, [](const Held& one) { return one.range.end; });
      for (; has != held.end() && has->range.begin < needed.end; ++has) {
        const int64_t begin = std::max(has->range.begin, needed.begin), end = std::min(has->range.end, needed.end);
        shared.push_back({has->part, {has->at + begin - has->range.begin, at + begin - needed.begin, end - begin}});
      }
      at += needed.size();
    });
    if (!std::ranges::is_sorted(shared, {}, &Shared::part)) std::ranges::stable_sort(shared, {}, &Shared::part);
    for (const auto& [part_before, stretch] : shared) {
      if (common_.size() == first_.back() || common_.back().part != part_before)
        common_.push_back({part_before, 0, {}});
      common_.back().elements += stretch.length;
      stretches_.push_back(stretch);
    }
    first_.push_back(common_.size());
  }
  // Now that they lie where they stay:
  size_t begin = 0;
  for (Common& one : common_) {
    size_t end = begin;
    for (int64_t elements = 0; elements < one.elements; ++end) elements += stretches_[end].length;
    one.stretches = std::span(stretches_).subspan(begin, end - begin);
    begin = end;
  }
}

int64_t most_senders(const MovedDim& dim) {
  int64_t most = 0;
  if (dim.before.deal || dim.after.deal) {
    const DimShares shares(dim);
    for (int64_t part = 0; part < shares.parts_after(); ++part)
      most = std::max(most, static_cast<int64_t>(shares.of(part).size()));
    return most;
  }
  const int64_t before = parts_of(dim.before), after = parts_of(dim.after);
  const auto part_with = [&](int64_t element) {
    return static_cast<int64_t>((static_cast<__int128>(element + 1) * before - 1) / dim.size);
  };
  for (int64_t part = 0; part < after; ++part) {
    const int64_t begin = part_begin(dim.size, part, after), end = part_begin(dim.size, part + 1, after);
    if (begin < end) most = std::max(most, part_with(end - 1) - part_with(begin) + 1);
  }
  return most;
}

Shares::Shares(const Group& group, const std::vector<MovedDim>& dims) : group_(group), dims_(dims), copies_{0} {
  for (const MovedDim& dim : dims) {
    shares_.emplace_back(dim);
    parts_.emplace_back(static_cast<size_t>(parts_of(dim.before)), 0);
  }
  // Members are numbered with the last axis fastest. One over which no dim is split before counts copies.
  int step = 1;
  for (auto axis = group.axes.rbegin(); axis != group.axes.rend(); ++axis) {
    bool splits = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t inner = 1;
      for (auto other = dims[i].before.axes.rbegin(); other != dims[i].before.axes.rend(); ++other) {
        if (*other == *axis) {
          splits = true;
          for (size_t part = 0; part < parts_[i].size(); ++part)
            parts_[i][part] += static_cast<int>(static_cast<int64_t>(part) / inner % axis->size) * step;
        }
        inner *= other->size;
      }
    }
    if (!splits) {
      const std::vector<int> nearer = copies_;
      for (int coordinate = 1; coordinate < axis->size; ++coordinate)
        for (const int place : nearer) copies_.push_back(place + coordinate * step);
    }
    step *= axis->size;
  }
}

int64_t Shares::part(int member, const Split& split) const {
  int64_t index = 0;
  for (const Axis& axis : split.axes)
    index = index * axis.size + group_.members[static_cast<size_t>(member)] / axis.stride % axis.size;
  return index;
}

/// Which of the copies of its part a member has, as a place in `copies_`.
int Shares::place_of_copy(int member) const {
  int own = member;
  for (size_t i = 0; i < dims_.size(); ++i) own -= parts_[i][static_cast<size_t>(part(member, dims_[i].before))];
  return static_cast<int>(std::ranges::lower_bound(copies_, own) - copies_.begin());
}

/// Of those with copies of what the part that begins with member `first` has: the receiver itself, else who gives
/// least.
int Shares::sender_of(int first, int receiver, int own_copy, std::span<const int64_t> given) const {
  const auto own = copies_.begin() + own_copy;
  int sender = first + *own;
  if (sender == receiver) return sender;
  const auto consider = [&](int copy) {
    const int other = first + copy;
    const bool better = given[static_cast<size_t>(other)] < given[static_cast<size_t>(sender)];
    if (better) sender = other;
    return sender == receiver;
  };
  for (auto copy = own + 1; copy != copies_.end(); ++copy)
    if (consider(*copy)) return sender;
  for (auto copy = copies_.begin(); copy != own; ++copy)
    if (consider(*copy)) return sender;
  return sender;
}

std::vector<int64_t> Shares::held_before(int member) const {
  std::vector<int64_t> extents;
  for (size_t i = 0; i < dims_.size(); ++i) extents.push_back(shares_[i].before(part(member, dims_[i].before)));
  return extents;
}

std::vector<int64_t> Shares::held_after(int member) const {
  std::vector<int64_t> extents;
  for (size_t i = 0; i < dims_.size(); ++i) extents.push_back(shares_[i].after(part(member, dims_[i].after)));
  return extents;
}

}  // namespace meshrt
