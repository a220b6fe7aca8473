// join_terms.cpp: a sum whose terms are made on different ranks, none of which has two of them, as the stages of a
// pipeline make those of a gradient. On each rank all terms but its own are -0: they are one value there, which lies
// where the sum does, and nothing is added.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "codegen/program/accesses.h"
#include "codegen/program/branches.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/single_map.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

bool is_nothing(const Step& step) {
  const auto* fill = std::get_if<FillStep>(&step.what);
  return fill && fill->value == 0 && std::signbit(fill->value);
}

class TermJoiner {
 public:
  explicit TermJoiner(Program& program) : program_(program), keep_(outlive_routine(program)), classes_(program) {}

  /// Whether a sum was joined.
  bool run() {
    find_uses();
    for (const Sum& sum : sums_)
      if (join(sum)) return true;
    return false;
  }

 private:
  /// Of a buffer's memory, in the order of the program.
  struct UseAt {
    int step;
    RankSet ranks;
    bool is_nothing;
    const Access* access;
  };
  struct Sum {
    const Step* step;
    int number;
    RankSet ranks;
    std::vector<Access> terms;
    Access to;
  };

  void find_uses() {
    for (const Routine& routine : program_.routines) {
      std::vector<RankSet> ranks{classes_.all()};
      std::vector<LoopId> loops;
      walk(
          routine.steps, [&](const Step& step) { add(step, ranks.back(), loops); },
          [&](const Step& step, const Steps&) {
            ranks.push_back(classes_.entering(step, ranks.back()));
            const auto* loop = std::get_if<ForStep>(&step.what);
            loops.push_back(loop ? loop->loop : LoopId{});
          },
          [&](const Step&, const Steps&) {
            ranks.pop_back();
            loops.pop_back();
          });
    }
  }

  void add(const Step& step, const RankSet& ranks, const std::vector<LoopId>& loops) {
    const int number = static_cast<int>(loops_.size());
    loops_.push_back(loops);
    if (has_bodies(step)) return;
    for_each_access(step, [&](const Access& access, Use) {
      uses_[storage(program_, access.buffer)].push_back({number, ranks, is_nothing(step), &access});
    });
    const std::optional<SingleMap> map = single_map(step);
    if (!map || map->function != MapFunction::add || !map->load(0) || !map->load(1)) return;
    sums_.push_back({&step, number, ranks, {*map->load(0), *map->load(1)}, map->to});
  }

  bool is_view(const Access& access) const { return storage(program_, access.buffer) != access.buffer; }
  /// Of all of a buffer, by its own name.
  bool is_whole(const UseAt& use) const { return use.access->is_plain() && !is_view(*use.access); }
  /// Whether a sum is one value there, in a turn of loops around it where it has a slot of each.
  bool is_one(const Access& sum, const UseAt& use) const {
    return are_slots_of(loops_[static_cast<size_t>(use.step)], sum.turns);
  }

  /// The ranks that make the term; nothing where it cannot lie where the sum does.
  std::optional<RankSet> makers(const Sum& sum, const Access& term) const {
    const Buffer& of_term = program_.buffer(term.buffer);
    if (keep_[term.buffer.index] || of_term.type != program_.buffer(sum.to.buffer).type ||
        !std::ranges::equal(of_term.dims, dims_of(program_, sum.to)))
      return {};
    RankSet makers(classes_.count()), others(classes_.count());
    for (const UseAt& use : uses_.at(storage(program_, term.buffer))) {
      if (!is_whole(use) || use.step > sum.number || !is_one(sum.to, use)) return {};
      if (use.step < sum.number) unite(use.is_nothing ? others : makers, use.ranks);
    }
    if (intersect(makers, others)) return {};
    unite(others, makers);
    return includes(others, sum.ranks) ? std::optional(makers) : std::nullopt;
  }

  bool join(const Sum& sum) {
    const auto first = makers(sum, sum.terms[0]), second = makers(sum, sum.terms[1]);
    if (!first || !second || intersect(*first, *second) || sum.terms[0] == sum.terms[1]) return false;
    if (!sum.to.maps.empty() || is_view(sum.to)) return false;
    for (const UseAt& use : uses_.at(storage(program_, sum.to.buffer)))
      if (use.step < sum.number || (!is_whole(use) && *use.access != sum.to)) return false;
    const auto is_term = [&](const Access& access) { return std::ranges::count(sum.terms, access) > 0; };
    if (std::ranges::any_of(sum.terms,
                            [&](const Access& term) { return program_.buffer(term.buffer).space == Space::arena; }))
      program_.buffer(sum.to.buffer).space = Space::arena;
    for_each_list(program_, [&](Steps& steps) {
      std::erase_if(steps, [&](const Step& step) {
        const auto* fill = std::get_if<FillStep>(&step.what);
        const auto* branch = std::get_if<BranchStep>(&step.what);
        return &step == sum.step || (fill && is_nothing(step) && is_term(fill->to)) || (branch && branch->body.empty());
      });
    });
    for (Routine& routine : program_.routines)
      for_each_step(routine.steps, [&](Step& step) {
        if (!has_bodies(step))
          for_each_access(step, [&](Access& access, Use) {
            if (is_term(access)) access = sum.to;
          });
      });
    return true;
  }

  Program& program_;
  const std::vector<bool> keep_;
  const RankClasses classes_;
  std::map<BufferId, std::vector<UseAt>> uses_;
  std::vector<std::vector<LoopId>> loops_;  // around each step, by number
  std::vector<Sum> sums_;
};

}  // namespace

void join_terms(Program& program) {
  bool any = false;
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) { any = any || is_nothing(step); });
  while (any && TermJoiner(program).run()) {}
}

}  // namespace mesh
