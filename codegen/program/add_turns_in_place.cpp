// add_turns_in_place.cpp: what a step makes, of loops slot by slot, one turn each, and a step behind it adds to a sum,
// is added to the sum where it is made. So a micro-batch has no memory of its own for gradients, and they pass through
// the caches once. What a collective or a step of an op's own makes is added by the step behind it, as before.
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
  /// made, `to`: how it has the sum. Where the maker is a product that adds the sum itself (`plus`), the adder copies
  /// back what it gives.
  struct Addition {
    Step* adder;
    Access to, written;
    Step* maker;
    bool sum_first;
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
    std::optional<AddedTo> added = added_to(adder);
    const bool copies = !added;
    if (copies) added = copied_back(adder);
    if (!added) return {};
    const auto& [sum, made, sum_first] = *added;
    if (!is_free(sum) || !is_free(made) || buffer(sum).type != buffer(made).type) return {};
    const std::optional<std::vector<TurnIndex>> around = turns_around(steps, adder, sum, made);
    if (!around) return {};
    if (uses_.readers(made).size() != 1 || uses_.writers(made).size() != 1) return {};
    Step* maker = uses_.writers(made).front();
    const std::optional<size_t> place = uses_.place(steps, *maker);
    if (!place || *place >= i) return {};
    for (const Step* user : uses_.users(sum)) {
      const std::optional<size_t> at = uses_.place(steps, *user);
      if (user != &adder && (!copies || user != maker) && at && *place <= *at && *at <= i) return {};
    }
    const std::optional<Access> written = written_to(*maker, made);
    if (!written || !has_same_turns(steps, *maker, *written, adder, made)) return {};
    Access to{sum.buffer, *around};
    to.turns.insert(to.turns.end(), written->turns.begin(), written->turns.end());
    if (copies && !adds_by_plus(*maker, to)) return {};
    return Addition{&adder, to, *written, maker, sum_first};
  }

  /// What the sum has of its own in a turn of loops around the list, as each replica has, beside the turns and dims of
  /// what is made; nothing where these are others.
  std::optional<std::vector<TurnIndex>> turns_around(const Steps& steps, const Step& adder, const Access& sum,
                                                     const Access& made) const {
    if (sum.turns.size() < made.turns.size()) return {};
    const auto more = static_cast<std::ptrdiff_t>(sum.turns.size() - made.turns.size());
    const std::vector<TurnIndex> around(sum.turns.begin(), sum.turns.begin() + more);
    if (!std::equal(made.turns.begin(), made.turns.end(), sum.turns.begin() + more)) return {};
    const auto &dims = buffer(sum).dims, &own = buffer(made).dims;
    if (dims.size() != own.size() + around.size() || !std::equal(own.begin(), own.end(), dims.begin() + more))
      return {};
    if (!are_slots_of(uses_.loops_around(steps[*uses_.place(steps, adder)]), around)) return {};
    return around;
  }

  /// A step that copies all of a value as sum = sum + it, for makers that have added the sum.
  std::optional<AddedTo> copied_back(const Step& step) const {
    const std::optional<Copy> copy = copy_of(program_, step);
    return copy ? std::optional(AddedTo{copy->to, copy->from, true}) : std::nullopt;
  }

  /// Whether the step is a product with a sum of columns, of whose memory it only adds `sum`. Of one without,
  /// fuse_carries.cpp has made an accumulation.
  bool adds_by_plus(const Step& step, const Access& sum) const {
    const auto* product = std::get_if<ProductStep>(&step.what);
    if (!product || !product->column_sum || product->epilogue.plus != sum) return false;
    return uses_.times_in(step, sum) == 1;
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
    const Step* const outermost = &steps[*uses_.place(steps, step)];
    for (const Step* one = &step; one != outermost;) {
      one = uses_.around(*one);
      const auto* loop = std::get_if<ForStep>(&one->what);
      if (!loop || loop->only != ForStep::Only::every || may_end_early(*loop)) return {};
      const auto fixes = [&](const TurnIndex& turn) { return turn.loop == loop->loop && turn.period == 0; };
      const auto turn = std::ranges::find_if(access.turns, fixes);
      if (turn == access.turns.end()) return {};
      loops[static_cast<size_t>(turn - access.turns.begin())] = loop;
    }
    if (std::ranges::count(loops, nullptr) > 0) return {};
    return loops;
  }

  static bool may_end_early(const ForStep& loop) {
    return !loop.body.empty() && std::holds_alternative<UntilStep>(loop.body.back().what);
  }

  /// All that one step of the list makes, itself or in its turns.
  void add_all(const std::vector<Addition>& all) {
    for (const Addition& one : all) {
      if (std::holds_alternative<ProductStep>(one.maker->what) && !may_add(one, all)) continue;
      bool adds = false;
      uses_.change(*one.maker, [&] { adds = add_where_made(one); });
      if (!adds) continue;
      swallow(*one.maker, *one.adder);
      uses_.removed(*one.adder);
    }
  }

  /// Whether a product adds all that it gives, its result and the sum of its columns, and nothing happens to its sums
  /// on their way.
  static bool may_add(const Addition& one, const std::vector<Addition>& all) {
    const auto& product = std::get<ProductStep>(one.maker->what);
    const ProductStep::Epilogue& e = product.epilogue;
    if (e.bias || e.activation || e.slope || e.times || e.rounded) return false;
    const auto is_its = [&](const Addition& other) { return other.maker == one.maker; };
    const auto is_plus = [&](const Addition& other) { return is_its(other) && e.plus == other.to; };
    return std::ranges::count_if(all, is_its) == (product.column_sum ? 2 : 1) &&
           (!e.plus || std::ranges::any_of(all, is_plus));
  }

  bool add_where_made(const Addition& one) const {
    Step& maker = *one.maker;
    const Access& to = one.to;
    if (auto* product = std::get_if<ProductStep>(&maker.what)) {
      (product->c == one.written ? product->c : *product->column_sum) = to;
      if (product->epilogue.plus == to) product->epilogue.plus.reset();
      return product->accumulate = true;
    }
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
        if (store.to == one.written) {
          add_scalar(pass, store, to, one.sum_first);
          return true;
        }
    }
    return false;
  }

  void add_scalar(Pass& pass, Pass::Store& store, const Access& to, bool sum_first) const {
    const Type type = buffer(to).type;
    const int made = store.scalar, before = static_cast<int>(pass.scalars.size());
    const std::vector<int> terms = sum_first ? std::vector{before, made} : std::vector{made, before};
    pass.scalars.push_back({Scalar::Load{to}, type});
    pass.scalars.push_back({Scalar::Apply{MapFunction::add, terms}, type});
    store = {before + 1, to};
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
};

}  // namespace

void add_turns_in_place(Program& program) { TurnsInPlace(program).run(); }

}  // namespace mesh
