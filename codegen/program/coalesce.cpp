// coalesce.cpp: values that are made in one place and copied to another are made in the other at once.
#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

class Coalescer {
 public:
  explicit Coalescer(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) { run(steps); });
  }

 private:
  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }

  void run(Steps& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      add_lookup(steps, i);
      auto* nest = std::get_if<Nest>(&steps[i].what);
      if (!nest) continue;
      for (Pass& pass : nest->passes)
        for (size_t s = pass.stores.size(); s-- > 0;) {
          const auto* load = std::get_if<Scalar::Load>(&pass.scalars[static_cast<size_t>(pass.stores[s].scalar)].what);
          if (!load || !can_write(steps, i, load->access, pass.stores[s].to, dims_of_pass(*nest, pass))) continue;
          const Access from = load->access, to = pass.stores[s].to;
          uses_.change(steps[i], [&] { pass.stores.erase(pass.stores.begin() + static_cast<std::ptrdiff_t>(s)); });
          uses_.use_instead(from, to);
        }
    }
  }

  /// Whether all steps that make and read `from` could use `to` instead: `from` is used in this body alone and not
  /// after step i, which copies it over `dims`; `to` is left alone from where `from` begins until then. What is added
  /// to step by step is not made in a stored tensor: forward steps that another entry executes too would change that.
  bool can_write(std::vector<Step>& steps, size_t i, const Access& from, const Access& to,
                 const std::vector<LocalDim>& dims) const {
    const Buffer &a = program_.buffer(from.buffer), &b = program_.buffer(to.buffer);
    if (!from.turns.empty() || keep_[from.buffer.index] || a.view_of || a.type != b.type || root(from) == root(to))
      return false;
    if (!from.maps.empty() || !std::ranges::equal(dims_of(program_, from), stretch(to, dims))) return false;
    // Calls take what lies in one piece.
    const bool piece = std::ranges::equal(dims_of(program_, from), dims_of(program_, to)) && to.maps.empty();
    if (!uses_.only_here(steps, from)) return false;
    const std::vector<size_t> users = uses_.users(steps, from), of_to = uses_.users(steps, to);
    const size_t first = users.front();
    if (first >= i || users.back() > i) return false;
    bool begun = false, possible = true;
    for (const size_t k : users) {
      possible = possible && (piece || (std::holds_alternative<Nest>(steps[k].what) && !accumulates(steps[k], from)));
      for_each_access(steps[k], [&](Access& access, Use use) {
        if (root(access) != root(from)) return;
        const bool may_use = use == Use::update ? begun && !program_.buffer(storage(program_, to.buffer)).stored
                                                : begun || use == Use::write;
        possible = possible && access == from && may_use;
        begun = true;
      });
      if (!possible) return false;
    }
    for (auto k = std::ranges::lower_bound(of_to, first); k != of_to.end() && *k < i; ++k)
      if (!stores_elsewhere(steps[*k], to)) return false;
    int in_nest = 0;
    for_each_access(steps[i], [&](Access& access, Use) { in_nest += root(access) == root(to) ? 1 : 0; });
    return in_nest == 1;
  }

  static std::vector<LocalDim> dims_of_pass(const Nest& nest, const Pass& pass) {
    std::vector<LocalDim> dims = nest.outer;
    dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
    return dims;
  }

  /// The dims over which a nest iterates that writes all of what the access leads to within `dims`.
  std::vector<LocalDim> stretch(const Access& access, const std::vector<LocalDim>& within) const {
    std::vector<LocalDim> result;
    const std::vector<LocalDim>& dims = program_.buffer(access.buffer).dims;
    for (size_t i = access.turns.size(); i < dims.size(); ++i) {
      const IndexMap* map = map_at(access, i);
      if (!map) result.push_back(without_margin(dims[i]));
      else if (map->along) result.push_back(*std::ranges::find(within, map->along, &LocalDim::dim));
    }
    return result;
  }

  bool accumulates(const Step& step, const Access& what) const {
    const auto* nest = std::get_if<Nest>(&step.what);
    return nest && std::ranges::any_of(nest->passes, [&](const Pass& pass) {
             return std::ranges::any_of(pass.accumulates,
                                        [&](const Pass::Accumulate& sum) { return root(sum.to) == root(what); });
           });
  }

  /// Whether the step only stores to the memory of `to`, and only to stretches beside it.
  bool stores_elsewhere(Step& step, const Access& to) const {
    bool elsewhere = std::holds_alternative<Nest>(step.what);
    for_each_access(step, [&](Access& access, Use use) {
      if (root(access) != root(to)) return;
      elsewhere = elsewhere && use == Use::write && access.turns == to.turns && access.maps.size() == 1 &&
                  to.maps.size() == 1 && access.maps[0].position == to.maps[0].position &&
                  beside(access.maps[0], to.maps[0]);
    });
    return elsewhere;
  }

  bool beside(const IndexMap& a, const IndexMap& b) const {
    const auto end = [&](const IndexMap& map) {
      return map.begin + (map.along ? program_.sharded.graph.dim(map.along).size : 1);
    };
    return !a.turn && !b.turn && a.step == 1 && b.step == 1 && (end(a) <= b.begin || end(b) <= a.begin);
  }

  /// sum = other + rows added up by index: the rows are added to `other` in place. Step i makes the rows.
  void add_lookup(std::vector<Step>& steps, size_t i) {
    auto* lookup = std::get_if<ScatterStep>(&steps[i].what);
    if (!lookup || lookup->adds || lookup->reduce != Reduce::sum || keep_[root(lookup->table)]) return;
    // Two steps use it: this one, and one behind it that reads it.
    if (uses_.writers(lookup->table).size() != 1 || uses_.readers(lookup->table).size() != 1 ||
        !uses_.only_here(steps, lookup->table))
      return;
    const size_t at = uses_.readers(steps, lookup->table).front();
    if (at <= i) return;
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
    if (!may_move(program_, uses_, steps, i, at - 1)) return;
    uses_.change(steps[at], [&] {
      pass.scalars = {{Scalar::Load{other}, program_.buffer(other.buffer).type}};
      pass.stores[0].scalar = 0;
    });
    uses_.change(steps[i], [&] {
      lookup->table = to;
      lookup->adds = true;
    });
    uses_.move_on(steps, i, at);
  }

  Program& program_;
  const std::vector<bool> keep_;
  MemoryUses uses_;
};

}  // namespace

void coalesce(Program& program) { Coalescer(program).run(); }

}  // namespace mesh
