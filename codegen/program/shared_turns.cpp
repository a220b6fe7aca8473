#include "codegen/program/shared_turns.h"

#include <algorithm>
#include <vector>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "meshrt/threads.h"

namespace mesh {
namespace {

/// Of columns that lie side by side: threads that write to them must not meet in many cache lines.
constexpr int64_t columns_apart = 256;

/// Of all that a turn adds to, which is kept until what turns before it add is added.
constexpr int64_t largest_sums = 1 << 12;

struct Seen {
  const Buffer* memory;  // not a view
  std::vector<LocalDim> dims;
  std::vector<int> positions;  // of the outermost loop's dims among them
  bool plain;                  // each turn has elements of its own
  Use use;
  int64_t elements = 1;         // of its dims
  bool is_accumulated = false;  // and is a sum, if turns add to each element once or not at all
  bool is_sum = false;
};

class Turns {
 public:
  Turns(const Program& program, const Nest& nest, std::span<const LocalDim> outermost) : program_(program) {
    for (const Pass& pass : nest.passes) {
      std::vector<LocalDim> dims = nest.outer;
      dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
      for_each_access(const_cast<Pass&>(pass), [&](Access& access, Use use) {  // changes nothing
        seen_.push_back(see(access, use, dims, outermost));
        const auto to = std::ranges::find(pass.accumulates, &access, [](const auto& one) { return &one.to; });
        seen_.back().is_accumulated = to != pass.accumulates.end();
        seen_.back().is_sum =
            seen_.back().is_accumulated && to->reduce == Reduce::sum && adds_once(access, dims, outermost);
      });
    }
  }

  bool are_apart() const {
    return std::ranges::all_of(seen_, [&](const Seen& one) { return one.use == Use::read || is_apart(one); });
  }

  /// Apart but for what is accumulated: sums of one type, which nothing else meets.
  bool are_apart_but_sums() const {
    int64_t elements = 0;
    std::optional<Type> type;
    for (const Seen& one : seen_) {
      if (one.use == Use::read) continue;
      if (one.is_accumulated ? !one.is_sum : !is_apart(one)) return false;
      if (!one.is_sum) continue;
      const auto meets = [&](const Seen& other) { return &other != &one && meet(*one.memory, *other.memory); };
      if (std::ranges::any_of(seen_, meets) || type.value_or(one.memory->type) != one.memory->type) return false;
      type = one.memory->type;
      elements += one.elements;
    }
    const bool of_reals = type == Type::f32 || type == Type::f64;
    return of_reals && elements <= largest_sums;
  }

 private:
  Seen see(const Access& access, Use use, const std::vector<LocalDim>& nest,
           std::span<const LocalDim> outermost) const {
    const Address address = address_of(program_, access, nest);
    Seen seen{&program_.buffer(storage(program_, access.buffer)), program_.buffer(access.buffer).dims, {}, true, use};
    for (const LocalDim& dim : dims_of(program_, access)) seen.elements *= largest_extent(program_, dim);
    for (const LocalDim& dim : outermost) {
      const auto nest_dim = std::ranges::find(nest, dim) - nest.begin();
      seen.positions.push_back(address.positions[static_cast<size_t>(nest_dim)]);
      const bool shifted = std::ranges::count(address.shifts, nest_dim, &Address::Shift::nest_dim) > 0;
      seen.plain = seen.plain && seen.positions.back() >= 0 && !shifted;
    }
    return seen;
  }

  /// Whether a turn goes through the elements of `to` with all its loops, and all turns through the same.
  bool adds_once(const Access& to, const std::vector<LocalDim>& nest, std::span<const LocalDim> outermost) const {
    const Address address = address_of(program_, to, nest);
    for (size_t i = 0; i < nest.size(); ++i)
      if ((std::ranges::find(outermost, nest[i]) == outermost.end()) != (address.positions[i] >= 0)) return false;
    return address.mapped.empty() && address.shifts.empty();
  }

  bool is_apart(const Seen& written) const {
    return written.plain && std::ranges::all_of(seen_, [&](const Seen& other) {
             return !meet(*written.memory, *other.memory) || is_same_place(written, other);
           });
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

/// How many turns of the loop over `dims` have enough work for a thread, if there are as many for two.
std::optional<int64_t> turns_with_work(const Program& program, const Nest& nest, std::span<const LocalDim> dims) {
  const int64_t turns = elements(program, dims);
  int64_t all = 0;
  for (const Pass& pass : nest.passes) all += elements(program, nest.outer) * elements(program, pass.inner);
  const int64_t enough = std::max<int64_t>(meshrt::elements_of_a_thread * turns / std::max<int64_t>(all, 1), 1);
  if (turns < 2 * enough) return {};
  return enough;
}

}  // namespace

std::optional<SharedTurns> shared_turns(const Program& program, const Nest& nest, std::span<const LocalDim> outermost) {
  if (!is_around_all(nest, outermost)) return {};
  const std::optional<int64_t> enough = turns_with_work(program, nest, outermost);
  if (!enough) return {};
  const Turns turns(program, nest, outermost);
  if (turns.are_apart()) return SharedTurns{*enough};
  if (turns.are_apart_but_sums()) return SharedTurns{*enough, true};
  return {};
}

std::optional<int64_t> columns_for_a_thread(const Program& program, const Nest& nest,
                                            std::span<const LocalDim> columns) {
  if (nest.passes.size() != 1 || !nest.passes.front().reductions.empty()) return {};
  const std::optional<int64_t> with_work = turns_with_work(program, nest, columns);
  if (!with_work) return {};
  const int64_t enough = std::max(*with_work, columns_apart);
  if (elements(program, columns) < 2 * enough || !Turns(program, nest, columns).are_apart()) return {};
  return enough;
}

bool reduces_in_blocks(const Program& program, const Nest& nest, const Pass& pass) {
  if (!nest.outer.empty() || pass.inner.empty() || pass.reductions.empty() || !pass.accumulates.empty()) return false;
  return Turns(program, Nest{{}, {pass}, {}}, pass.inner).are_apart();
}

}  // namespace mesh
