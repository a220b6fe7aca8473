// add_turns_in_place.cpp: what loops make slot by slot, one turn each, and a step behind them adds to a sum, is added
// to the sum where it is made. So a micro-batch has no memory of its own for gradients of stacked parameters, and they
// pass through the caches once.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/single_map.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

class TurnsInPlace {
 public:
  explicit TurnsInPlace(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      std::map<size_t, std::vector<Addition>> by_place;  // what each step of the list makes of it
      for (size_t i = 0; i < steps.size(); ++i)
        for_each_in_turns(steps[i], [&](Step& adder) {
          if (const std::optional<Addition> found = addition(steps, i, adder))
            by_place[*uses_.place(steps, *found->maker)].push_back(*found);
        });
      for (const auto& [place, found] : by_place) add_all(found);
    });
    uses_.sweep();
    for_each_list(program_, [](Steps& steps) {
      std::erase_if(steps, [](const Step& step) {
        const auto* loop = std::get_if<ForStep>(&step.what);
        return loop && loop->body.empty();
      });
    });
  }

 private:
  /// sum = sum + made, which `adder` does, a step of a list or one in loops there; `written`: how `maker` has what is
  /// made.
  struct Addition {
    Step* adder;
    Access sum, written;
    Step* maker;
  };

  /// The step, or those in the turns of the loops that it is.
  template <class Visit>
  static void for_each_in_turns(Step& step, const Visit& visit) {
    auto* loop = std::get_if<ForStep>(&step.what);
    if (!loop) visit(step);
    else if (!loop->order)
      for (Step& inner : loop->body) for_each_in_turns(inner, visit);
  }

  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }
  const Buffer& buffer(const Access& access) const { return program_.buffer(access.buffer); }
  /// A buffer that nobody needs when the routine has ended.
  bool is_free(const Access& access) const {
    return access.maps.empty() && !buffer(access).view_of && !keep_[root(access)];
  }

  /// What the adder, in step `i` of the list, adds where an earlier step of it makes that; nothing where anybody else
  /// reads what is made, or needs the sum between the maker and here.
  std::optional<Addition> addition(const Steps& steps, size_t i, Step& adder) const {
    const std::optional<SingleMap> map = single_map(adder);
    if (!map || map->function != MapFunction::add || !map->load(0) || !map->load(1)) return {};
    if ((*map->load(0) == map->to) == (*map->load(1) == map->to)) return {};
    const Access sum = map->to, made = *map->load(0) == sum ? *map->load(1) : *map->load(0);
    if (!is_free(sum) || !is_free(made) || made.turns != sum.turns) return {};
    if (buffer(sum).type != buffer(made).type || buffer(sum).dims != buffer(made).dims) return {};
    if (uses_.readers(made).size() != 1 || uses_.writers(made).size() != 1) return {};
    Step* maker = uses_.writers(made).front();
    const std::optional<size_t> place = uses_.place(steps, *maker);
    if (!place || *place >= i) return {};
    for (const bool writes : {false, true})
      for (const Step* user : writes ? uses_.writers(sum) : uses_.readers(sum)) {
        const std::optional<size_t> at = uses_.place(steps, *user);
        if (user != &adder && at && *place <= *at && *at <= i) return {};
      }
    const std::optional<Access> written = written_to(*maker, made);
    if (!written || !has_same_turns(steps, *maker, *written, adder, made)) return {};
    return Addition{&adder, sum, *written, maker};
  }

  /// How the maker has what it makes; nothing where it does more with it than to write it.
  std::optional<Access> written_to(const Step& maker, const Access& made) const {
    std::optional<Access> written;
    int times = 0;
    for_each_access(maker, [&](const Access& access, Use use) {
      if (root(access) != root(made)) return;
      ++times;
      if (use == Use::write) written = access;
    });
    if (times != 1 || !written || written->buffer != made.buffer || !written->maps.empty()) return {};
    return written;
  }

  /// Whether each slot that turns of the maker write is read by one turn of the adder: its loops are over the first of
  /// the dims that the maker's fix, and of the same turns.
  bool has_same_turns(const Steps& steps, const Step& maker, const Access& written, const Step& adder,
                      const Access& read) const {
    const auto making = loops_of(steps, maker, written), adding = loops_of(steps, adder, read);
    if (!making || !adding || adding->size() > making->size()) return false;
    for (size_t i = 0; i < adding->size(); ++i) {
      const ForStep &one = *(*making)[i], &other = *(*adding)[i];
      if (one.dim != other.dim || one.own != other.own || one.stage != other.stage) return false;
      if (written.turns[i].offset != read.turns[i].offset) return false;
    }
    return true;
  }

  /// The loops around the step, up to the list, in the order in which they fix dims of the access; nothing where that
  /// has not a slot for each of their turns.
  std::optional<std::vector<const ForStep*>> loops_of(const Steps& steps, const Step& step,
                                                      const Access& access) const {
    std::vector<const ForStep*> loops(access.turns.size(), nullptr);
    for (const Step* one = &step; !stands_in(steps, *one);) {
      one = uses_.around(*one);
      const auto* loop = one ? std::get_if<ForStep>(&one->what) : nullptr;
      if (!loop || loop->only != ForStep::Only::every) return {};
      const auto fixes = [&](const TurnIndex& turn) { return turn.loop == loop->loop && turn.period == 0; };
      const auto turn = std::ranges::find_if(access.turns, fixes);
      if (turn == access.turns.end()) return {};
      loops[static_cast<size_t>(turn - access.turns.begin())] = loop;
    }
    if (std::ranges::count(loops, nullptr) > 0) return {};
    return loops;
  }

  static bool stands_in(const Steps& steps, const Step& step) {
    return std::ranges::any_of(steps, [&](const Step& one) { return &one == &step; });
  }

  /// All that one step of the list makes. A product adds to all that it gives, or to nothing.
  void add_all(const std::vector<Addition>& all) {
    for (const Addition& one : all) {
      const auto* product = std::get_if<ProductStep>(&one.maker->what);
      const auto of_maker = [&](const Addition& other) { return other.maker == one.maker; };
      if (product && std::ranges::count_if(all, of_maker) != (product->column_sum ? 2 : 1)) continue;
      bool adds = false;
      uses_.change(*one.maker, [&] { adds = add_where_made(one); });
      if (!adds) continue;
      swallow(*one.maker, *one.adder);
      uses_.removed(*one.adder);
    }
  }

  bool add_where_made(const Addition& one) const {
    Step& maker = *one.maker;
    const Access to{one.sum.buffer, one.written.turns};
    if (auto* product = std::get_if<ProductStep>(&maker.what)) return add_product(*product, one.written, to);
    if (auto* rows = std::get_if<ScatterStep>(&maker.what)) {
      if (rows->table != one.written || rows->adds || rows->reduce != Reduce::sum) return false;
      rows->table = to;
      return rows->adds = true;
    }
    auto* nest = std::get_if<Nest>(&maker.what);
    if (!nest) return false;
    for (Pass& pass : nest->passes) {
      for (Pass::Accumulate& sum : pass.accumulates)
        if (sum.to == one.written && !sum.adds && sum.reduce == Reduce::sum) {
          sum.to = to;
          return sum.adds = true;
        }
      for (Pass::Store& store : pass.stores)
        if (store.to == one.written && is_once(*nest, pass, store.to)) {
          add_scalar(pass, store, to, *single_map(*one.adder)->load(0) == one.sum);
          return true;
        }
    }
    return false;
  }

  /// Its result, or the sum of its columns; the other one follows, or went before.
  bool add_product(ProductStep& product, const Access& written, const Access& to) const {
    const ProductStep::Epilogue& e = product.epilogue;
    if (e.bias || e.activation || e.slope || e.times || e.plus || e.rounded) return false;
    if (product.column_sum && *product.column_sum == written) product.column_sum = to;
    else if (product.c == written) product.c = to;
    else return false;
    return product.accumulate = true;
  }

  /// Whether no two iterations of the pass store the same element.
  bool is_once(const Nest& nest, const Pass& pass, const Access& to) const {
    const auto dims = dims_of(program_, to);
    return nest.bounds.empty() && nest.outer.size() + pass.inner.size() == dims.size();
  }

  void add_scalar(Pass& pass, Pass::Store& store, const Access& to, bool sum_first) const {
    const Type type = buffer(to).type;
    const int made = store.scalar, before = static_cast<int>(pass.scalars.size());
    pass.scalars.push_back({Scalar::Load{to}, type});
    pass.scalars.push_back(
        {Scalar::Apply{MapFunction::add, sum_first ? std::vector{before, made} : std::vector{made, before}}, type});
    store = {before + 1, to};
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
};

}  // namespace

void add_turns_in_place(Program& program) { TurnsInPlace(program).run(); }

}  // namespace mesh
