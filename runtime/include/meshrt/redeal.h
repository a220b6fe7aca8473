// redeal.h: a dim that is dealt to the members of a group in one way comes to be dealt in another.
#pragma once
#include <cstdint>
#include <vector>

#include "meshrt/collectives.h"
#include "meshrt/deal.h"

namespace meshrt {

struct Call;  // src/transport/call.h

/// Who sends which elements to whom: known once for all calls.
class Redeal {
 public:
  /// Of a dim of `size` that the members of the group hold.
  Redeal(const Group& group, int64_t size, const Deal& before, const Deal& after)
      : Redeal(group.size(), group.index, size, before, after) {}
  /// Of one that this rank alone holds, whole: only the order changes.
  Redeal(int64_t size, const Deal& before, const Deal& after) : Redeal(1, 0, size, before, after) {}

 private:
  /// A stretch that lies side by side on both sides, in elements of the dim.
  struct Stretch {
    int64_t at_sender, at_receiver, length;
  };
  /// What goes to the member that is `distance` further, and comes from the one as far before.
  struct Exchange {
    int distance;
    std::vector<Stretch> sent, received;
    int64_t sender_extent;  // what the one that this member receives from holds
    size_t calls;           // stretches of the pair that exchanges most
  };
  Redeal(int members, int me, int64_t size, const Deal& before, const Deal& after);

  int members_, me_;
  int64_t before_, after_;  // extents of this member's parts
  std::vector<Stretch> kept_;
  std::vector<Exchange> exchanges_;

  friend std::vector<Call> redeal_calls(const Group&, Site, const void*, void*, const Redeal&, int64_t, int64_t, Type);
  friend void reorder(const void*, void*, const Redeal&, int64_t, int64_t, Type);
};

/// to [outer, own elements after, inner] from everybody's [outer, own elements before, inner], by permutes.
void redeal(Rank&, const Group&, Site, const void* from, void* to, const Redeal&, int64_t outer, int64_t inner, Type);

/// The same of what this rank alone holds.
void reorder(const void* from, void* to, const Redeal&, int64_t outer, int64_t inner, Type);

}  // namespace meshrt
