// All-reduce in a group of several ranks on each of several hosts, for S bytes, k hosts and m ranks on each: the ranks
// of a host sum a part each over its memory, all-reduce that part with the ranks of the same place on the other hosts,
// and gather the parts. So a host sends 2 (k-1)/k S, as one rank a host would, where a rank for itself would send the
// same m times. As each host's members are a whole branch of the tree of sums, the bits are those of one level; but
// sums of 16-bit floats, which are rounded once for all members, stay on one.
#include "collectives/two_level.h"

#include <vector>

#include "transport/ucx_call.h"

namespace meshrt {

namespace {

/// Where the part of each member of the host begins, of each value: whole cache lines.
std::vector<std::vector<int64_t>> parts_of(const Call& call, int members) {
  const auto size = static_cast<int64_t>(size_of(call.type));
  std::vector<std::vector<int64_t>> parts;
  for (const Item& item : call.items()) {
    std::vector<int64_t>& begin = parts.emplace_back();
    for (int m = 0; m <= members; ++m) begin.push_back(slice_begin(item.count * size, m, members) / size);
  }
  return parts;
}

}  // namespace

Task two_level_all_reduce(UcxTransport& between, SharedTransport& within, Levels& levels, const Group& group,
                          const Call& call, HeadOfQueue& head) {
  {  // all members make the same call
    UcxCall whole(between, group, call);
    whole.announce();
    co_await whole.finished();
  }
  co_await head;
  const Group &local = levels.local, &across = levels.across;
  const std::vector<std::vector<int64_t>> parts = parts_of(call, local.size());
  const auto size = static_cast<int64_t>(size_of(call.type));
  std::vector<Scattered> scattered;
  std::vector<Whole> own;
  std::vector<Gathered> gathered;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Item& item = call.items()[i];
    const Blocks blocks{1, parts[i], 1};
    const int64_t first = parts[i][local.index];
    std::byte* const part = item.destination + first * size;
    scattered.push_back({item.destination, part, blocks});
    own.push_back({part, parts[i][local.index + 1] - first});
    gathered.push_back({part, item.destination, blocks});
  }
  const bool one = parts.size() == 1;
  {
    Stage stage(within, local, ++levels.local_calls,
                one ? reduce_scatter_call(local, call.site, scattered[0].whole, scattered[0].part, scattered[0].blocks,
                                          call.type, call.reduce)
                    : reduce_scatter_call(local, call.site, scattered, call.type, call.reduce));
    co_await stage.task;
  }
  {
    Stage stage(between, across, ++levels.across_calls,
                one ? all_reduce_call(across, call.site, own[0].data, own[0].count, call.type, call.reduce)
                    : all_reduce_call(across, call.site, own, call.type, call.reduce));
    co_await stage.task;
  }
  {
    Stage stage(
        within, local, ++levels.local_calls,
        one ? all_gather_call(local, call.site, gathered[0].part, gathered[0].whole, gathered[0].blocks, call.type)
            : all_gather_call(local, call.site, gathered, call.type));
    co_await stage.task;
  }
}

}  // namespace meshrt
