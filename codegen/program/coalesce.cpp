// coalesce.cpp: values that are made in one place and copied to another are made in the other at once.
#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"

namespace mesh {

namespace {

class Coalescer {
 public:
  explicit Coalescer(Program& program) : program_(program), keep_(outlive_routine(program)) {}

  void run() {
    for (Routine& routine : program_.routines) walk(routine.steps);
  }

 private:
  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }

  void walk(std::vector<Step>& steps) {
    for (Step& step : steps)
      if (auto* loop = std::get_if<std::unique_ptr<ForStep>>(&step.what)) walk((*loop)->body);
    for (size_t i = 0; i < steps.size(); ++i) {
      add_lookup(steps, i);
      auto* nest = std::get_if<Nest>(&steps[i].what);
      if (!nest) continue;
      for (Pass& pass : nest->passes)
        for (size_t s = pass.stores.size(); s-- > 0;) {
          const auto* load = std::get_if<Scalar::Load>(&pass.scalars[static_cast<size_t>(pass.stores[s].scalar)].what);
          if (!load || !can_write(steps, i, load->access, pass.stores[s].to)) continue;
          const Access from = load->access, to = pass.stores[s].to;
          pass.stores.erase(pass.stores.begin() + static_cast<std::ptrdiff_t>(s));
          rename(steps, from, to);
        }
    }
  }

  /// Whether all steps that make and read `from` could use `to` instead: `from` is used in this body alone and not
  /// after step i, which copies it; `to` is left alone from where `from` begins until then.
  bool can_write(std::vector<Step>& steps, size_t i, const Access& from, const Access& to) const {
    const Buffer &a = program_.buffer(from.buffer), &b = program_.buffer(to.buffer);
    if (!from.turns.empty() || keep_[from.buffer.index] || a.view_of || a.type != b.type || root(from) == root(to))
      return false;
    if (!from.maps.empty() || !to.maps.empty()) return false;
    if (!std::ranges::equal(dims_of(program_, from), dims_of(program_, to))) return false;
    int uses = 0;
    bool begun = false, possible = true;
    for (size_t k = 0; k < steps.size(); ++k)
      for_each_access(steps[k], [&](Access& access, Use use) {
        if (root(access) == root(from)) {
          ++uses;
          possible = possible && k <= i && access == from && (begun || use == Use::write);
          begun = true;
        }
      });
    if (!possible || uses != count(from)) return false;
    size_t first = 0;
    while (!touches(steps[first], from)) ++first;
    for (size_t k = first; k < i; ++k)
      if (touches(steps[k], to)) return false;
    int in_nest = 0;
    for_each_access(steps[i], [&](Access& access, Use) { in_nest += root(access) == root(to) ? 1 : 0; });
    return first < i && in_nest == 1;
  }

  bool touches(Step& step, const Access& what) const {
    bool found = false;
    for_each_access(step, [&](Access& access, Use) { found = found || root(access) == root(what); });
    return found;
  }

  int count(const Access& what) const {
    const UseCounts uses = count_uses(program_);
    return uses.reads[root(what)] + uses.writes[root(what)];
  }

  void rename(std::vector<Step>& steps, const Access& from, const Access& to) {
    Buffer& memory = program_.buffer(storage(program_, to.buffer));
    if (program_.buffer(from.buffer).space == Space::arena) memory.space = Space::arena;
    for (Step& step : steps)
      for_each_access(step, [&](Access& access, Use) {
        if (access == from) access = to;
      });
  }

  /// sum = other + rows added up by index: the rows are added to `other` in place. Step i makes the rows.
  void add_lookup(std::vector<Step>& steps, size_t i) {
    auto* lookup = std::get_if<TakeGradientStep>(&steps[i].what);
    if (!lookup || lookup->adds || keep_[root(lookup->table)] || count(lookup->table) != 2) return;
    size_t at = i + 1;
    while (at < steps.size() && !touches(steps[at], lookup->table)) ++at;
    if (at == steps.size()) return;
    auto* nest = std::get_if<Nest>(&steps[at].what);
    if (!nest || nest->passes.size() != 1 || !nest->rows.empty()) return;
    Pass& pass = nest->passes[0];
    if (pass.stores.size() != 1 || pass.scalars.size() != 3 || pass.stores[0].scalar != 2) return;
    const auto* sum = std::get_if<Scalar::Apply>(&pass.scalars[2].what);
    const auto *left = std::get_if<Scalar::Load>(&pass.scalars[0].what),
               *right = std::get_if<Scalar::Load>(&pass.scalars[1].what);
    if (!sum || sum->function != MapFunction::add || !left || !right) return;
    const Access table = lookup->table, other = left->access == table ? right->access : left->access,
                 to = pass.stores[0].to;
    if ((left->access == table) == (right->access == table) || root(other) == root(to)) return;
    for (const Access& access : {other, to})
      if (!access.maps.empty() || !std::ranges::equal(dims_of(program_, access), dims_of(program_, table))) return;
    const StepSets own = sets_of(program_, steps[i]);
    for (size_t k = i + 1; k < at; ++k)
      if (conflict(own, sets_of(program_, steps[k]))) return;
    pass.scalars = {{Scalar::Load{other}, program_.buffer(other.buffer).type}};
    pass.stores[0].scalar = 0;
    lookup->table = to;
    lookup->adds = true;
    const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(begin, begin + 1, steps.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }

  Program& program_;
  const std::vector<bool> keep_;
};

}  // namespace

void coalesce(Program& program) { Coalescer(program).run(); }

}  // namespace mesh
