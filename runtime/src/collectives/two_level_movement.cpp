// Reduce-scatter and all-gather in a group of several ranks on each of several hosts, for S bytes, k hosts and m ranks
// on each. All-gather: each rank exchanges its part with the ranks of the same place on the other hosts, then those of
// a host give each other what they have got, over its memory. Reduce-scatter: the reverse; what the ranks of a host sum
// for those of one place waits in memory of its own, S/m. So a host sends (k-1)/k S, as one rank a host would. The bits
// are those of one level, as in two_level.cpp.
#include <algorithm>
#include <vector>

#include "collectives/two_level.h"
#include "transport/ucx_call.h"

namespace meshrt {

namespace {

/// What the two levels work on: every value in pieces, one for each host.
class Pieces {
 public:
  Pieces(const Levels& levels, const Call& call) : levels_(levels), call_(call) {}

  /// An all-gather: the part of this place of each host, to where it lies in the whole.
  std::vector<Call> gather_across() {
    std::vector<Item> items;
    for (const Item& item : call_.items())
      for (int host = 0; host < hosts(); ++host) {
        const int64_t own = extent(item, host);  // which one member alone has
        std::vector<int64_t>& begin = begins_.emplace_back(hosts() + 1, 0);
        std::fill(begin.begin() + host + 1, begin.end(), own);
        items.push_back({item.source,
                         item.destination + offset(item, member(host)),
                         volume(item, own),
                         {item.blocks.outer, begin, item.blocks.inner},
                         row(item),
                         0});
      }
    return calls(levels_.across, items);
  }
  /// And what the ranks of this host have then got, each from every host.
  std::vector<Call> gather_within() {
    std::vector<Item> items;
    for (const Item& item : call_.items())
      for (int host = 0; host < hosts(); ++host) {
        const Blocks parts = parts_of(item, host);
        items.push_back({item.destination + offset(item, member(host)), item.destination + offset(item, first(host)),
                         volume(item, parts.begin.back() - parts.begin.front()), parts, row(item), row(item)});
      }
    return calls(levels_.local, items);
  }

  /// Bytes that a reduce-scatter keeps between its levels.
  int64_t kept_bytes() const {
    int64_t bytes = 0;
    for (const Item& item : call_.items())
      for (int host = 0; host < hosts(); ++host) bytes += volume(item, extent(item, host)) * size();
    return bytes;
  }
  /// A reduce-scatter: what this host contributes to the parts of this place, of every host.
  std::vector<Call> scatter_within(std::byte* kept) {
    std::vector<Item> items;
    for (const Item& item : call_.items())
      for (int host = 0; host < hosts(); ++host) {
        const Blocks parts = parts_of(item, host);
        items.push_back({item.source + offset(item, first(host)), kept,
                         volume(item, parts.begin.back() - parts.begin.front()), parts, row(item), 0});
        kept += volume(item, extent(item, host)) * size();
      }
    return calls(levels_.local, items);
  }
  /// And their sum over the hosts.
  std::vector<Call> scatter_across(const std::byte* kept) {
    std::vector<Item> items;
    for (const Item& item : call_.items()) {
      std::vector<int64_t>& begin = begins_.emplace_back(1, 0);
      for (int host = 0; host < hosts(); ++host) begin.push_back(begin.back() + volume(item, extent(item, host)));
      items.push_back({kept, item.destination, begin.back(), {1, begin, 1}});
      kept += begin.back() * size();
    }
    return calls(levels_.across, items);
  }

 private:
  int hosts() const { return levels_.across.size(); }
  int first(int host) const { return host * levels_.local.size(); }
  /// The member of this rank's place.
  int member(int host) const { return first(host) + levels_.local.index; }
  int64_t size() const { return static_cast<int64_t>(size_of(call_.type)); }
  static int64_t row(const Item& item) {
    return (item.blocks.begin.back() - item.blocks.begin.front()) * item.blocks.inner;
  }
  int64_t offset(const Item& item, int member) const {
    return (item.blocks.begin[member] - item.blocks.begin.front()) * item.blocks.inner * size();
  }
  int64_t extent(const Item& item, int host) const {
    return item.blocks.begin[member(host) + 1] - item.blocks.begin[member(host)];
  }
  static int64_t volume(const Item& item, int64_t extent) { return item.blocks.outer * extent * item.blocks.inner; }
  Blocks parts_of(const Item& item, int host) const {
    return {item.blocks.outer, item.blocks.begin.subspan(first(host), levels_.local.size() + 1), item.blocks.inner};
  }

  std::vector<Call> calls(const Group& group, const std::vector<Item>& items) const {
    std::vector<Call> all;
    each_call_of(std::span(items), [&](std::span<const Item> some) {
      all.push_back(call_.sums()
                        ? reduce_scatter_call(group, call_.site, std::span<const Scattered>(), call_.type, call_.reduce)
                        : all_gather_call(group, call_.site, std::span<const Gathered>(), call_.type));
      all.back().several.assign(some.begin(), some.end());
    });
    return all;
  }

  const Levels& levels_;
  const Call& call_;
  std::vector<std::vector<int64_t>> begins_;  // that the calls point to
};

}  // namespace

Task two_level_movement(UcxTransport& between, SharedTransport& within, Levels& levels, const Group& group,
                        const Call& call, HeadOfQueue& head) {
  UcxCall whole(between, group, call);  // all members make the same call
  whole.announce();
  co_await whole.finished();
  co_await head;
  Pieces pieces(levels, call);
  BufferPool::Buffer kept;
  if (call.sums()) kept = whole.room(std::max<int64_t>(pieces.kept_bytes(), 1));
  if (call.sums())
    for (Call& one : pieces.scatter_within(kept.data())) {
      Stage stage(within, levels.local, ++levels.local_calls, std::move(one));
      co_await stage.task;
    }
  for (Call& one : call.sums() ? pieces.scatter_across(kept.data()) : pieces.gather_across()) {
    Stage stage(between, levels.across, ++levels.across_calls, std::move(one));
    co_await stage.task;
  }
  if (!call.sums())
    for (Call& one : pieces.gather_within()) {
      Stage stage(within, levels.local, ++levels.local_calls, std::move(one));
      co_await stage.task;
    }
}

}  // namespace meshrt
