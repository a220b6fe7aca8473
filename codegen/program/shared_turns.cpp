#include "codegen/program/shared_turns.h"

#include <algorithm>
#include <vector>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"

namespace mesh {
namespace {

/// A thread that is woken takes as long as some thousand elements.
constexpr int64_t elements_of_a_thread = 1 << 14;

struct Seen {
  const Buffer* memory;  // not a view
  std::vector<LocalDim> dims;
  std::vector<int> positions;  // of the outermost loop's dims among them
  bool plain;                  // each turn has elements of its own
  Use use;
};

class Turns {
 public:
  Turns(const Program& program, const Nest& nest, std::span<const LocalDim> outermost) : program_(program) {
    for (const Pass& pass : nest.passes) {
      std::vector<LocalDim> dims = nest.outer;
      dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
      for_each_access(const_cast<Pass&>(pass), [&](Access& access, Use use) {  // changes nothing
        seen_.push_back(see(access, use, dims, outermost));
      });
    }
  }

  bool are_apart() const {
    return std::ranges::all_of(seen_, [&](const Seen& written) {
      if (written.use == Use::read) return true;
      return written.plain && std::ranges::all_of(seen_, [&](const Seen& other) {
               return !meet(*written.memory, *other.memory) || is_same_place(written, other);
             });
    });
  }

 private:
  Seen see(const Access& access, Use use, const std::vector<LocalDim>& nest,
           std::span<const LocalDim> outermost) const {
    const Address address = address_of(program_, access, nest);
    Seen seen{&program_.buffer(storage(program_, access.buffer)), program_.buffer(access.buffer).dims, {}, true, use};
    for (const LocalDim& dim : outermost) {
      const auto nest_dim = std::ranges::find(nest, dim) - nest.begin();
      seen.positions.push_back(address.positions[static_cast<size_t>(nest_dim)]);
      seen.plain = seen.plain && seen.positions.back() >= 0;
    }
    seen.plain = seen.plain && address.mapped.empty() && address.shifts.empty();
    return seen;
  }

  static bool meet(const Buffer& one, const Buffer& other) {
    const auto end = [](const Buffer& of) {
      return of.offset + of.elements * static_cast<int64_t>(meshrt::size_of(of.type));
    };
    return &one == &other || (one.space == other.space && one.offset < end(other) && other.offset < end(one));
  }

  static bool is_same_place(const Seen& one, const Seen& other) {
    return other.plain && one.memory->offset == other.memory->offset && one.dims == other.dims &&
           one.positions == other.positions && meshrt::size_of(one.memory->type) == meshrt::size_of(other.memory->type);
  }

  const Program& program_;
  std::vector<Seen> seen_;
};

int64_t elements(const Program& program, std::span<const LocalDim> dims) {
  int64_t product = 1;
  for (const LocalDim& dim : dims) product *= std::max<int64_t>(largest_extent(program, dim), 1);
  return product;
}

/// Whether all that the nest does is done in the loop: not if a pass has loops of its own.
bool is_around_all(const Nest& nest, std::span<const LocalDim> outermost) {
  const bool one_walk = nest.passes.size() == 1 && nest.passes.front().reductions.empty();
  return one_walk || std::ranges::all_of(outermost, [&](const LocalDim& dim) {
           return std::ranges::find(nest.outer, dim) != nest.outer.end();
         });
}

}  // namespace

std::optional<int64_t> turns_for_a_thread(const Program& program, const Nest& nest,
                                          std::span<const LocalDim> outermost) {
  if (!is_around_all(nest, outermost)) return {};
  const int64_t turns = elements(program, outermost);
  int64_t all = 0;
  for (const Pass& pass : nest.passes) all += elements(program, nest.outer) * elements(program, pass.inner);
  const int64_t enough = std::max<int64_t>(elements_of_a_thread * turns / std::max<int64_t>(all, 1), 1);
  if (turns < 2 * enough || !Turns(program, nest, outermost).are_apart()) return {};
  return enough;
}

}  // namespace mesh
