// What the members of a redistribution that have most to do send, keep and exchange: its price, without its boxes.
#include <algorithm>

#include "collectives/shares.h"

namespace meshrt {

namespace {

/// Of a member: elements that it sends and keeps, members that it sends to and receives from.
struct Load {
  int64_t sent = 0, kept = 0, to = 0, from = 0;
};

/// By visiting every pair of members: which of several copies gives depends on what they gave before.
std::vector<Load> loads_of_pairs(const Shares& shares, int members) {
  std::vector<Load> loads(static_cast<size_t>(members));
  shares.each([&](int sender, int receiver, std::span<const Common* const> common) {
    int64_t elements = 1;
    for (const Common* one : common) elements *= one->elements;
    Load& load = loads[static_cast<size_t>(sender)];
    (sender == receiver ? load.kept : load.sent) += elements;
    if (sender == receiver) return;
    ++load.to;
    ++loads[static_cast<size_t>(receiver)].from;
  });
  return loads;
}

/// One dim where each part before is with one member alone, seen from its parts.
struct Dealt {
  std::vector<int64_t> given, takers;  // of a part before: its elements in parts afterwards, and in how many
  std::vector<bool> exists;            // of a part afterwards: whether a member has it
  int64_t parts = 0;                   // how many do

  Dealt(const DimShares& shares, int64_t parts_before)
      : given(static_cast<size_t>(parts_before), 0),
        takers(static_cast<size_t>(parts_before), 0),
        exists(static_cast<size_t>(shares.parts_after()), false) {}

  void add(const DimShares& shares, int64_t part_after) {
    if (exists[static_cast<size_t>(part_after)]) return;
    exists[static_cast<size_t>(part_after)] = true;
    ++parts;
    for (const Common& one : shares.of(part_after)) {
      given[static_cast<size_t>(one.part)] += one.elements;
      ++takers[static_cast<size_t>(one.part)];
    }
  }
};

/// Without copies before, what a member gives is a product over the dims: of what all parts afterwards have of its
/// part, and so many times as there are copies afterwards. No pair is visited.
std::vector<Load> loads_of_dims(const Shares& shares, std::span<const MovedDim> dims, int members) {
  std::vector<Dealt> dealt;
  int64_t copies_after = members;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const DimShares& of_dim = shares.of_dim(dim);
    Dealt& one = dealt.emplace_back(of_dim, of_dim.parts_before());
    for (int member = 0; member < members; ++member) one.add(of_dim, shares.part(member, dims[dim].after));
    copies_after /= one.parts;
  }
  std::vector<Load> loads;
  for (int member = 0; member < members; ++member) {
    int64_t given = copies_after, takers = copies_after, kept = 1, from = 1;
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      const int64_t before = shares.part(member, dims[dim].before);
      const std::span<const Common> needed = shares.of_dim(dim).of(shares.part(member, dims[dim].after));
      const auto own = std::ranges::find(needed, before, &Common::part);
      given *= dealt[dim].given[static_cast<size_t>(before)];
      takers *= dealt[dim].takers[static_cast<size_t>(before)];
      kept *= own == needed.end() ? 0 : own->elements;
      from *= static_cast<int64_t>(needed.size());
    }
    const int64_t itself = kept > 0 ? 1 : 0;
    loads.push_back({given - kept, kept, takers - itself, from - itself});
  }
  return loads;
}

}  // namespace

Redistribution::Busiest Redistribution::busiest(const Group& group, const std::vector<MovedDim>& dims) {
  const Shares shares(group, dims);
  Busiest most;
  for (const Load& load :
       shares.copies() > 1 ? loads_of_pairs(shares, group.size()) : loads_of_dims(shares, dims, group.size())) {
    most.sent = std::max(most.sent, load.sent);
    most.kept = std::max(most.kept, load.kept);
    most.messages = std::max({most.messages, load.to, load.from});
  }
  return most;
}

int64_t Redistribution::least_messages(const std::vector<MovedDim>& dims) {
  int64_t senders = 1;
  for (const MovedDim& dim : dims) senders *= most_senders(dim);
  return std::max<int64_t>(0, senders - 1);  // one may be itself
}

}  // namespace meshrt
