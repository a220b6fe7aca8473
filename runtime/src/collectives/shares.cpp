#include "collectives/shares.h"

#include <algorithm>
#include <map>

namespace meshrt {

namespace {

int64_t parts_of(const Split& split) {
  int64_t parts = 1;
  for (const Axis& axis : split.axes) parts *= axis.size;
  return parts;
}

/// The elements of each part.
std::vector<std::vector<IndexRange>> parts_of(int64_t size, const Split& split) {
  std::vector<std::vector<IndexRange>> all;
  const int64_t parts = parts_of(split);
  for (int64_t part = 0; part < parts; ++part)
    all.push_back(ranges_at(size, split.deal, part_begin(size, split.deal, part, parts),
                            part_begin(size, split.deal, part + 1, parts)));
  return all;
}

int64_t elements_of(const std::vector<IndexRange>& ranges) {
  int64_t all = 0;
  for (const IndexRange& range : ranges) all += range.size();
  return all;
}

/// Elements side by side, and where they lie in their part.
struct Held {
  IndexRange range;
  int64_t part, at;
};

std::vector<Held> in_order(const std::vector<std::vector<IndexRange>>& parts) {
  std::vector<Held> all;
  for (size_t part = 0; part < parts.size(); ++part) {
    int64_t at = 0;
    for (const IndexRange& range : parts[part]) {
      all.push_back({range, static_cast<int64_t>(part), at});
      at += range.size();
    }
  }
  std::ranges::sort(all, {}, &Held::range);
  return all;
}

}  // namespace

DimShares::DimShares(const MovedDim& dim) {
  const auto before = parts_of(dim.size, dim.before), after = parts_of(dim.size, dim.after);
  for (const auto& part : before) before_.push_back(elements_of(part));
  for (const auto& part : after) after_.push_back(elements_of(part));
  const std::vector<Held> held = in_order(before);
  for (const std::vector<IndexRange>& part : after) {
    std::map<int64_t, Common> common;  // by part before
    int64_t at = 0;
    for (const IndexRange& needed : part) {
      auto has = std::ranges::upper_bound(held, needed.begin, {}, [](const Held& one) { return one.range.end; });
      for (; has != held.end() && has->range.begin < needed.end; ++has) {
        const int64_t begin = std::max(has->range.begin, needed.begin), end = std::min(has->range.end, needed.end);
        Common& one = common.try_emplace(has->part, Common{has->part, 0, {}}).first->second;
        one.stretches.push_back({has->at + begin - has->range.begin, at + begin - needed.begin, end - begin});
        one.elements += end - begin;
      }
      at += needed.size();
    }
    auto& shares = shares_.emplace_back();
    for (auto& [number, one] : common) shares.push_back(std::move(one));
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

void Shares::each(const Visit& visit) const {
  std::vector<int64_t> given(static_cast<size_t>(group_.size()), 0);
  const auto copies = static_cast<int>(copies_.size());
  std::vector<const Common*> shared(dims_.size());
  for (int receiver = 0; receiver < group_.size(); ++receiver) {
    std::vector<std::span<const Common>> needed;
    for (size_t i = 0; i < dims_.size(); ++i) needed.push_back(shares_[i].of(part(receiver, dims_[i].after)));
    const int own_copy = place_of_copy(receiver);
    const std::function<void(size_t, int, int64_t)> choose = [&](size_t dim, int first, int64_t elements) {
      if (dim < needed.size()) {
        for (const Common& one : needed[dim]) {
          shared[dim] = &one;
          choose(dim + 1, first + parts_[dim][static_cast<size_t>(one.part)], elements * one.elements);
        }
        return;
      }
      int sender = first + copies_[static_cast<size_t>(own_copy)];
      for (int i = 1; i < copies && sender != receiver; ++i)
        if (const int other = first + copies_[static_cast<size_t>((own_copy + i) % copies)];
            given[static_cast<size_t>(other)] < given[static_cast<size_t>(sender)])
          sender = other;
      if (sender != receiver) given[static_cast<size_t>(sender)] += elements;
      visit(sender, receiver, shared);
    };
    choose(0, 0, 1);
  }
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
