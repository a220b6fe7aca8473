// redistribute.h: a value that the members of a group hold in parts comes to lie in other parts. Each member gets what
// it needs straight from who holds it: itself, else of those with copies the one that gives least so far, and of equals
// the one that lies as it does along the axes of copies.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "meshrt/collectives.h"
#include "meshrt/deal.h"

namespace meshrt {

struct Call;  // src/transport/call.h

/// How a dim is split: over which axes, the first slowest, and how its elements are dealt to their ranks.
struct Split {
  std::vector<Axis> axes = {};
  Deal deal = {};
};

/// A dim of the value, in the order in memory. Of what the movement leaves alone `size` is what this member holds.
struct MovedDim {
  int64_t size;
  Split before = {}, after = {};
};

/// Who sends which elements to whom: known once for all calls.
class Redistribution {
 public:
  /// The group is over all axes along which elements move, perhaps over none.
  Redistribution(const Group&, const std::vector<MovedDim>&);

  /// What the member that sends most sends, in elements; what the one that keeps most keeps; from how many others the
  /// one receives, or to how many it sends, that exchanges with most.
  struct Busiest {
    int64_t sent = 0, kept = 0, messages = 0;
  };
  static Busiest busiest(const Group&, const std::vector<MovedDim>&);
  /// No fewer messages come to the member that gets most.
  static int64_t least_messages(const std::vector<MovedDim>&);

 private:
  struct Exchanges;  // src/collectives/redistribute.cpp
  std::shared_ptr<const Exchanges> exchanges_;
  friend std::vector<Call> redistribute_calls(const Group&, Site, const void*, void*, const Redistribution&, Type);
  friend void reorder(const void*, void*, const Redistribution&, Type);
};

/// to = the part afterwards of everybody's parts before, by permutes.
void redistribute(Rank&, const Group&, Site, const void* from, void* to, const Redistribution&, Type);

/// The same of what this member holds before and afterwards, alone.
void reorder(const void* from, void* to, const Redistribution&, Type);

}  // namespace meshrt
