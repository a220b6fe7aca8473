// join_sums.cpp: two sums that begin from zero, are only added to, and are then added to each other, are one sum. So a
// parameter that a model uses twice, as an embedding that also gives logits, has one gradient over micro-batches; but
// for stages that begin their sums apart, as those of a rank that has both ends of a pipeline do.
#include <algorithm>
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

class SumJoiner {
 public:
  explicit SumJoiner(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (size_t i = 0; i < steps.size(); ++i) join(steps, i);
    });
    uses_.sweep();
  }

 private:
  /// Of a sum, places in a list: where it begins from zero, where it is read last before anything is added to it, and
  /// where that happens first.
  struct Life {
    size_t begins, read, added_to;
  };

  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }

  void join(Steps& steps, size_t i) {
    const std::optional<SingleMap> map = uses_.is_removed(steps[i]) ? std::nullopt : single_map(steps[i]);
    if (!map || map->function != MapFunction::add || !map->load(0) || !map->load(1)) return;
    const Access total = map->to;
    Access first = *map->load(0), second = *map->load(1);
    if (first == second || !is_made_at(steps, i, total)) return;
    for (const Access& one : {first, second})
      if (!same_dims(program_, one, total) || type_of(one) != type_of(total)) return;
    std::optional<Life> of_first = life(steps, i, first), of_second = life(steps, i, second);
    if (!of_first || !of_second) return;
    if (of_first->begins > of_second->begins) {
      std::swap(first, second);
      std::swap(of_first, of_second);
    }
    if (std::max(of_first->read, of_second->read) >= std::min(of_first->added_to, of_second->added_to)) return;
    if (!is_copied_back_at_once(first, second)) return;
    swallow(steps[of_first->begins], steps[i]);
    uses_.removed(steps[of_second->begins]);
    uses_.removed(steps[i]);
    for (const Access& one : {first, second}) uses_.use_instead(one.buffer, total);
  }

  Type type_of(const Access& access) const { return program_.buffer(access.buffer).type; }

  /// Whether nobody uses its memory before step `i`: of what is kept of each turn, as of each replica, in a turn of
  /// loops around the list.
  bool is_made_at(const Steps& steps, size_t i, const Access& value) const {
    if (!value.maps.empty() || program_.buffer(value.buffer).view_of) return false;
    if (!are_slots_of(uses_.loops_around(steps[i]), value.turns)) return false;
    return std::ranges::all_of(uses_.users(value), [&](const Step* user) {
      const std::optional<size_t> place = uses_.place(steps, *user);
      return place ? *place >= i : !value.turns.empty();
    });
  }

  /// Nothing where more happens to it than that a step of the list begins it from zero, steps behind that add to it,
  /// and step `i` reads it. It may begin as a copy of the other one's zeros.
  std::optional<Life> life(const Steps& steps, size_t i, const Access& sum) const {
    if (!sum.is_plain() || program_.buffer(sum.buffer).view_of || keep_[root(sum)]) return {};
    std::optional<size_t> begins;
    size_t read_first = i, read_last = 0, added_to = i;
    for (const bool writes : {true, false})
      for (const Step* user : writes ? uses_.writers(sum) : uses_.readers(sum)) {
        const std::optional<size_t> place = uses_.place(steps, *user);
        if (!place || *place > i || !is_by_name(*user, sum)) return {};
        if (user == &steps[i]) continue;
        if (adds(*user, sum)) {
          added_to = std::min(added_to, *place);
        } else if (!writes) {
          read_first = std::min(read_first, *place);
          read_last = std::max(read_last, *place);
        } else {
          if (user != &steps[*place] || begins || !begins_from_zero(steps, *place, sum)) return {};
          begins = place;
        }
      }
    if (!begins || read_first < *begins) return {};
    return Life{*begins, std::max(*begins, read_last), added_to};
  }

  /// Whether the step uses its memory under no other name.
  bool is_by_name(const Step& step, const Access& sum) const {
    bool own = true;
    for_each_access(step, [&](const Access& access, Use) {
      own = own && (root(access) != root(sum) || access.buffer == sum.buffer);
    });
    return own;
  }

  /// Whether step `at` fills the sum with zeros, its own or those that another value has then, and does nothing else.
  bool begins_from_zero(const Steps& steps, size_t at, const Access& sum) const {
    if (const auto* fill = std::get_if<FillStep>(&steps[at].what)) return fill->to == sum && fill->value == 0;
    const std::optional<SingleStore> store = stored(steps[at], sum);
    if (!store) return false;
    return store->load() ? is_zero(steps, at, *store->load()) : is_literal_zero(*store->value);
  }

  /// Whether a step of the list before `at` has filled it with zeros, and nothing else writes it before that.
  bool is_zero(const Steps& steps, size_t at, const Access& value) const {
    if (!value.is_plain() || program_.buffer(value.buffer).view_of || keep_[root(value)]) return false;
    std::optional<size_t> filled;
    for (const Step* writer : uses_.writers(value)) {
      const std::optional<size_t> place = uses_.place(steps, *writer);
      if (!place) return false;
      if (*place > at) continue;
      if (filled || writer != &steps[*place] || !begins_from_zero(steps, *place, value)) return false;
      filled = place;
    }
    return filled && *filled < at;
  }

  static bool is_literal_zero(const Scalar& scalar) {
    const auto* number = std::get_if<Scalar::Literal>(&scalar.what);
    return number && number->value == 0;
  }

  /// The step, where it does no more than to store all of that.
  std::optional<SingleStore> stored(const Step& step, const Access& all) const {
    const std::optional<SingleStore> store = single_store(step);
    return store && store->to == all && std::ranges::equal(store->dims, dims_of(program_, all)) ? store : std::nullopt;
  }

  /// Whether all that the step does with the memory is to add to it.
  bool adds(const Step& step, const Access& sum) const {
    if (const std::optional<AddedTo> one = added_to(step); one && root(one->sum) == root(sum))
      return root(one->term) != root(sum);
    if (adds_and_copies(step, sum)) return true;
    const auto* nest = std::get_if<Nest>(&step.what);
    const auto* rows = std::get_if<ScatterStep>(&step.what);
    if (!nest && !rows && !std::holds_alternative<ProductStep>(step.what)) return false;
    if (rows && rows->reduce != Reduce::sum) return false;
    if (nest)
      for (const Pass& pass : nest->passes)
        for (const Pass::Accumulate& one : pass.accumulates)
          if (root(one.to) == root(sum) && one.reduce != Reduce::sum) return false;
    bool only_adds = true;
    for_each_access(step, [&](const Access& access, Use use) {
      only_adds = only_adds && (root(access) != root(sum) || use == Use::update);
    });
    return only_adds;
  }

  /// Whether it makes the sum with something added to it, or copies that back: coalesce.cpp and add_turns_in_place.cpp
  /// make one step of the two.
  bool adds_and_copies(const Step& step, const Access& sum) const {
    if (const Step* maker = maker_of(step, sum)) return adds_to_copy(*maker, sum) != nullptr;
    const Access* made = adds_to_copy(step, sum);
    if (made == nullptr) return false;
    const std::vector<Step*>& readers = uses_.readers(*made);
    return readers.size() == 1 && maker_of(*readers.front(), sum) == &step;
  }

  /// Where the step, which has the sum as one term and does nothing else with it, makes the total; null elsewhere.
  const Access* adds_to_copy(const Step& step, const Access& sum) const {
    if (uses_.times_in(step, sum) != 1) return nullptr;
    if (const auto* product = std::get_if<ProductStep>(&step.what))
      return product->epilogue.plus == sum ? &product->c : nullptr;
    const std::optional<SingleMap> map = single_map(step);
    if (!map || map->function != MapFunction::add) return nullptr;
    for (size_t i = 0; i < 2; ++i)
      if (map->load(i) && *map->load(i) == sum) return &std::get<Nest>(step.what).passes[0].stores[0].to;
    return nullptr;
  }

  /// The step that makes what this one copies to the sum; null where that is not all, or several do.
  const Step* maker_of(const Step& copy, const Access& sum) const {
    const std::optional<SingleStore> store = single_store(copy);
    if (!store || store->to != sum || !store->load() || !is_all_read_here(copy, *store->load())) return nullptr;
    const std::vector<Step*>& makers = uses_.writers(*store->load());
    return makers.size() == 1 && uses_.around(*makers.front()) == uses_.around(copy) ? makers.front() : nullptr;
  }

  bool is_all_read_here(const Step& step, const Access& value) const {
    return value.is_plain() && uses_.readers(value).size() == 1 && uses_.readers(value).front() == &step;
  }

  /// Whether nothing uses either sum between a step that makes it with something added and the one that copies that
  /// back: what it added there would be lost.
  bool is_copied_back_at_once(const Access& first, const Access& second) const {
    for (const Access& sum : {first, second})
      for (const Step* copy : uses_.writers(sum)) {
        const Step* maker = maker_of(*copy, sum);
        if (maker == nullptr) continue;
        const Step* around = uses_.around(*copy);
        if (around == nullptr) return false;
        const Steps& list = *bodies(*around).front();
        const std::optional<size_t> from = uses_.place(list, *maker), to = uses_.place(list, *copy);
        for (const Access& other : {first, second})
          for (const Step* user : uses_.users(other)) {
            const std::optional<size_t> at = uses_.place(list, *user);
            if (at && *from < *at && *at < *to) return false;
          }
      }
    return true;
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
};

}  // namespace

void join_sums(Program& program) { SumJoiner(program).run(); }

}  // namespace mesh
