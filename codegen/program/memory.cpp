#include "codegen/program/memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/first_fit.h"
#include "codegen/program/lifetimes.h"

namespace mesh {

namespace {

constexpr int64_t alignment = 64;
int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

class Plan {
 public:
  Plan(Program& program, bool share)
      : program_(program),
        classes_(program),
        life_(lifetimes(program)),
        slot_(program.buffers.size()),
        bytes_at_(classes_.count()) {
    std::iota(slot_.begin(), slot_.end(), 0);
    for (Lifetime& life : life_)
      if (!share && life.routine >= 0) life.routine = -1;
    for (size_t i = 0; i < life_.size(); ++i) ending_at_[life_[i].last].insert(i);
    for (const Routine& routine : program.routines)
      for_each_numbered(routine.steps, [&](const Step& step, int number, int block) {
        if (const auto* nest = std::get_if<Nest>(&step.what)) reuse(*nest, number, block);
      });
    place();
    for (Buffer& buffer : program.buffers)
      if (buffer.view_of) {
        const Buffer& of = program.buffer(buffer.view_of);
        buffer.offset = of.offset;
        buffer.space = of.space;
        buffer.elements = of.elements;
      }
    account();
  }

 private:
  size_t slot(size_t buffer) const {
    while (slot_[buffer] != buffer) buffer = slot_[buffer];
    return buffer;
  }
  /// More than a rank can hold is refused later (fits_rank.h) and counted no further, so that sums fit their integers.
  int64_t bytes(size_t buffer) const {
    const Buffer& of = program_.buffers[buffer];
    return aligned(std::min(of.elements * static_cast<int64_t>(meshrt::size_of(of.type)), most_bytes_of_a_rank + 1));
  }

  // ---- results in the place of operands

  /// Both must live within one turn of the nest's own body: what outlives the turn is read again in the next.
  void reuse(const Nest& nest, int step, int block) {
    std::map<size_t, size_t> holders;  // by place that has been taken over in this step: who took it last
    for (const Pass& pass : nest.passes)
      for (const Pass::Store& store : pass.stores) {
        const size_t to = storage(program_, store.to.buffer).index;
        if (life_[to].first != step || life_[to].block != block || slot(to) != to) continue;
        for (const size_t from : ending_at_[step]) {
          const size_t place = slot(from);
          const auto holder = holders.find(place);
          if (life_[from].block != block || (holder != holders.end() && holder->second != from)) continue;
          if (!may_merge(from, to) || !may_take_over(program_, nest, BufferId{static_cast<uint32_t>(from)},
                                                     BufferId{static_cast<uint32_t>(to)}))
            continue;
          slot_[to] = place;
          live_on(place, life_[to].last);
          if (life_[place].ranks != life_[to].ranks) life_[place].ranks = {};
          holders[place] = to;
          break;
        }
      }
  }

  void live_on(size_t buffer, int last) {
    if (last <= life_[buffer].last) return;
    ending_at_[life_[buffer].last].erase(buffer);
    life_[buffer].last = last;
    ending_at_[last].insert(buffer);
  }

  bool may_merge(size_t from, size_t to) const {
    const Buffer &a = program_.buffers[from], &b = program_.buffers[to];
    const Lifetime &old = life_[from], &now = life_[to];
    return from != to && !a.view_of && !b.view_of && old.routine >= 0 && old.routine == now.routine &&
           old.first <= now.first && a.space == b.space && bytes(from) == bytes(to) &&
           meshrt::size_of(a.type) == meshrt::size_of(b.type);
  }

  // ---- offsets

  /// What always lives lies first, then what is larger. Where values are of some ranks alone, what more of them have
  /// may lie in front instead, so that the use of the others ends before: of both what takes less.
  void place() {
    for (Buffer& buffer : program_.buffers) buffer.elements = largest_elements(program_, buffer);
    for (size_t alike = 0; alike < classes_.count(); ++alike)
      for (size_t i = 0; i < program_.buffers.size(); ++i) bytes_at_[alike].push_back(bytes_at(i, alike));
    place_in_order([](size_t) { return 0; });
    if (program_.memory.used.empty()) return;
    const MemoryPlan memory = program_.memory;
    std::vector<int64_t> offsets;
    for (const Buffer& buffer : program_.buffers) offsets.push_back(buffer.offset);
    place_in_order([this](size_t buffer) {
      const RankSet& ranks = life_[buffer].ranks;
      return ranks.empty() ? 0 : std::ranges::count(ranks, false);
    });
    if (cost(program_.memory) < cost(memory)) return;
    program_.memory = memory;
    for (size_t i = 0; i < offsets.size(); ++i) program_.buffers[i].offset = offsets[i];
  }

  /// What the rank that uses most does, then what all do.
  static std::pair<int64_t, size_t> cost(const MemoryPlan& memory) {
    size_t all = 0;
    for (const meshrt::RankMemory& one : memory.used) all += one.bytes();
    return {memory.peak(), all};
  }

  /// By what comes last as `late` says, then by what always lives and by size.
  template <class Late>
  void place_in_order(Late late) {
    program_.memory = {};
    std::vector<size_t> order;
    for (size_t i = 0; i < program_.buffers.size(); ++i)
      if (!program_.buffers[i].view_of && slot(i) == i && life_[i].routine != -2) order.push_back(i);
    const auto is_shared = [&](size_t i) { return life_[i].routine != -1; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (late(a) != late(b)) return late(a) < late(b);
      if (is_shared(a) != is_shared(b)) return is_shared(b);
      return is_shared(a) && bytes(a) > bytes(b);
    });
    FirstFit arena, own;
    for (size_t i : order) {
      Buffer& buffer = program_.buffers[i];
      const bool in_arena = buffer.space == Space::arena;
      buffer.offset = (in_arena ? arena : own).place(life_[i], bytes(i));
      int64_t& total = in_arena ? program_.memory.arena : program_.memory.own;
      total = std::max(total, buffer.offset + bytes(i));
    }
    for (size_t i = 0; i < program_.buffers.size(); ++i)
      if (slot(i) != i) program_.buffers[i].offset = program_.buffers[slot(i)].offset;
    find_used(order);
  }

  // ---- what ranks use

  void find_used(const std::vector<size_t>& placed) {
    MemoryPlan& memory = program_.memory;
    if (classes_.count() == 1) return;
    std::map<int64_t, meshrt::RankMemory> by_rank;
    for (size_t alike = 0; alike < classes_.count(); ++alike) {
      meshrt::RankMemory& used = by_rank[classes_.rank(alike)];
      for (const size_t i : placed) {
        if (!life_[i].ranks.empty() && !life_[i].ranks[alike]) continue;
        const auto begin = static_cast<size_t>(program_.buffers[i].offset);
        auto& ranges = program_.buffers[i].space == Space::arena ? used.arena : used.own;
        ranges.push_back({begin, begin + static_cast<size_t>(bytes_at_[alike][i])});
      }
    }
    for (auto& [rank, used] : by_rank)
      for (auto* ranges : {&used.arena, &used.own}) *ranges = in_pages(std::move(*ranges));
    const MeshShape& mesh = program_.sharded.layout.mesh;
    for (const AxisId axis : classes_.axes())
      if (std::ranges::any_of(by_rank, [&](const auto& one) {
            return one.second != by_rank.at(one.first - mesh.coordinate(one.first, axis) * mesh.axes[axis].stride);
          }))
        memory.axes.push_back(axis);
    if (memory.axes.empty()) return;
    memory.used.resize(static_cast<size_t>(mesh.size(memory.axes)));
    for (auto& [rank, used] : by_rank)
      memory.used[static_cast<size_t>(index_over(mesh, memory.axes, rank))] = std::move(used);
  }

  /// As pages that become memory: of gaps only whole ones are left out.
  static std::vector<meshrt::MemoryRange> in_pages(std::vector<meshrt::MemoryRange> ranges) {
    const auto last = std::ranges::max_element(ranges, {}, &meshrt::MemoryRange::end);
    const size_t end = last == ranges.end() ? 0 : last->end;
    for (meshrt::MemoryRange& range : ranges)
      if (range.begin != range.end)
        range = {range.begin / meshrt::huge_page * meshrt::huge_page,
                 std::min(end, (range.end + meshrt::huge_page - 1) / meshrt::huge_page * meshrt::huge_page)};
    return meshrt::joined_ranges(std::move(ranges));
  }

  /// On the ranks of a class.
  int64_t bytes_at(size_t buffer, size_t alike) const {
    if (classes_.count() == 1) return bytes(buffer);
    const Buffer& of = program_.buffers[buffer];
    const int64_t elements = largest_elements(program_, of, classes_.axes(), classes_.rank(alike));
    return std::min(bytes(buffer), aligned(elements * static_cast<int64_t>(meshrt::size_of(of.type))));
  }

  /// By kind: what always lives, and what lives at the step at which most does; gaps count as workspace.
  void account() {
    int64_t most = -1;
    Lifetime fullest;
    size_t by = 0;
    for (int routine = 0; routine < static_cast<int>(program_.routines.size()); ++routine) {
      const std::vector<std::vector<int64_t>> sums = sums_of(routine);
      for (size_t step = 0; step < sums.front().size(); ++step)
        for (size_t alike = 0; alike < classes_.count(); ++alike)
          if (sums[alike][step] > most) {
            most = sums[alike][step];
            fullest = {routine, static_cast<int>(step), static_cast<int>(step)};
            by = alike;
          }
    }
    for (size_t i = 0; i < life_.size(); ++i)
      if (has_place(i) && is_used_by(i, by) && life_[i].meets(fullest))
        program_.memory.by_kind[program_.buffers[i].kind] += bytes_at_[by][i];
    const int64_t gaps = program_.memory.peak() - std::max<int64_t>(most, 0);
    if (gaps > 0) program_.memory.by_kind[BufferKind::workspace] += gaps;
  }

  bool has_place(size_t buffer) const {
    return !program_.buffers[buffer].view_of && slot(buffer) == buffer && life_[buffer].routine != -2;
  }
  bool is_used_by(size_t buffer, size_t alike) const {
    return life_[buffer].ranks.empty() || life_[buffer].ranks[alike];
  }

  /// What lives at each step of a routine, by class of ranks.
  std::vector<std::vector<int64_t>> sums_of(int routine) const {
    int last = 0;
    for (const Lifetime& life : life_)
      if (life.routine == routine) last = std::max(last, life.last);
    const auto steps = static_cast<size_t>(last) + 1;
    std::vector<std::vector<int64_t>> sums(classes_.count(), std::vector<int64_t>(steps + 1));  // more than before
    for (size_t i = 0; i < life_.size(); ++i) {
      const Lifetime& life = life_[i];
      if (!has_place(i) || (life.routine != routine && life.routine != -1)) continue;
      for (size_t alike = 0; alike < classes_.count(); ++alike) {
        if (!is_used_by(i, alike)) continue;
        sums[alike][life.routine < 0 ? 0 : static_cast<size_t>(life.first)] += bytes_at_[alike][i];
        sums[alike][life.routine < 0 ? steps : static_cast<size_t>(life.last) + 1] -= bytes_at_[alike][i];
      }
    }
    for (std::vector<int64_t>& of_class : sums) {
      std::partial_sum(of_class.begin(), of_class.end(), of_class.begin());
      of_class.pop_back();
    }
    return sums;
  }

  Program& program_;
  const RankClasses classes_;
  std::vector<Lifetime> life_;
  std::map<int, std::set<size_t>> ending_at_;   // by step: buffers that live until then
  std::vector<size_t> slot_;                    // by buffer: whose place it takes, itself where none
  std::vector<std::vector<int64_t>> bytes_at_;  // by class of ranks and buffer
};

}  // namespace

bool may_take_over(const Program& program, const Nest& nest, BufferId dying, BufferId born) {
  const std::vector<LocalDim>* dims = nullptr;           // of both, as the nest sees them
  int last_use = -1, last_write = -1, first_store = -1;  // of `dying`, and of `born`
  for (size_t p = 0; p < nest.passes.size(); ++p) {
    bool used = false, good = true;
    for_each_access(const_cast<Pass&>(nest.passes[p]), [&](Access& access, Use use) {  // changes nothing
      const BufferId root = storage(program, access.buffer);
      if (root != dying && root != born) return;
      const std::vector<LocalDim>& own = program.buffer(access.buffer).dims;
      good = good && access.is_plain() && (!dims || *dims == own);
      dims = &own;
      if (root == dying) {
        last_use = static_cast<int>(p);
        if (use != Use::read) last_write = last_use;
        used = true;
      } else if (first_store < 0) {
        first_store = static_cast<int>(p);
      }
    });
    for (const Pass::Accumulate& sum : nest.passes[p].accumulates)
      good = good && storage(program, sum.to.buffer) != dying && storage(program, sum.to.buffer) != born;
    if (!good) return false;
    if (!used) continue;
    const auto has = [&](const LocalDim& dim) { return std::find(dims->begin(), dims->end(), dim) != dims->end(); };
    if (!std::all_of(nest.outer.begin(), nest.outer.end(), has)) return false;
    if (!std::all_of(nest.passes[p].inner.begin(), nest.passes[p].inner.end(), has)) return false;
  }
  return last_use >= 0 && last_use <= first_store && last_write < first_store;
}

void plan_memory(Program& program, bool share) {
  program.memory = {};
  Plan{program, share};
}

}  // namespace mesh
