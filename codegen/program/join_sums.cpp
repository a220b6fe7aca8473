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
    std::optional<Life> of_first = life(steps, i, first, second), of_second = life(steps, i, second, first);
    if (!of_first || !of_second) return;
    if (of_first->begins > of_second->begins) {
      std::swap(first, second);
      std::swap(of_first, of_second);
    }
    if (std::max(of_first->read, of_second->read) >= std::min(of_first->added_to, of_second->added_to)) return;
    swallow(steps[of_first->begins], steps[i]);
    uses_.removed(steps[of_second->begins]);
    uses_.removed(steps[i]);
    for (const Access& one : {first, second}) uses_.use_instead(one.buffer, total.buffer);
  }

  Type type_of(const Access& access) const { return program_.buffer(access.buffer).type; }

  /// Whether nobody uses its memory before step `i`.
  bool is_made_at(const Steps& steps, size_t i, const Access& value) const {
    if (!value.is_plain() || program_.buffer(value.buffer).view_of) return false;
    for (const bool writes : {false, true})
      for (const Step* user : writes ? uses_.writers(value) : uses_.readers(value)) {
        const std::optional<size_t> place = uses_.place(steps, *user);
        if (!place || *place < i) return false;
      }
    return true;
  }

  /// Nothing where more happens to it than that a step of the list begins it from zero, steps behind that add to it,
  /// and step `i` reads it. It may begin as a copy of the other one's zeros.
  std::optional<Life> life(const Steps& steps, size_t i, const Access& sum, const Access& other) const {
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
          if (user != &steps[*place] || begins || !begins_from_zero(steps, *place, sum, other)) return {};
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

  /// Whether step `at` fills the sum with zeros, or with what the other one begins with, and does nothing else.
  bool begins_from_zero(const Steps& steps, size_t at, const Access& sum, const Access& other) const {
    if (const auto* fill = std::get_if<FillStep>(&steps[at].what)) return fill->to == sum && fill->value == 0;
    const std::optional<SingleStore> store = stored(steps[at], sum);
    if (!store) return false;
    const Access* load = store->load();
    return load ? *load == other || is_zero(steps, at, *load) : is_literal_zero(*store->value);
  }

  /// Whether it is a number that is made once, before step `at`, and is zero.
  bool is_zero(const Steps& steps, size_t at, const Access& access) const {
    const std::vector<Step*>& writers = uses_.writers(access);
    if (!access.is_plain() || keep_[root(access)] || writers.size() != 1) return false;
    const std::optional<size_t> place = uses_.place(steps, *writers.front());
    const std::optional<SingleStore> store = stored(*writers.front(), access);
    return place && *place < at && store && !store->load() && is_literal_zero(*store->value);
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

  /// Whether it is a product that adds the sum to its own, or the step that copies back what that gives and nobody else
  /// reads: add_turns_in_place.cpp makes one step of them.
  bool adds_and_copies(const Step& step, const Access& sum) const {
    const std::optional<SingleStore> store = single_store(step);
    if (store && store->to == sum && store->load()) {
      const std::vector<Step*>& makers = uses_.writers(*store->load());
      const auto* maker = makers.size() == 1 ? std::get_if<ProductStep>(&makers.front()->what) : nullptr;
      return maker && maker->c == *store->load() && adds_and_copies(*makers.front(), sum);
    }
    const auto* product = std::get_if<ProductStep>(&step.what);
    if (!product || product->epilogue.plus != sum) return false;
    const std::vector<Step*>& readers = uses_.readers(product->c);
    const std::optional<SingleStore> back = readers.size() == 1 ? single_store(*readers.front()) : std::nullopt;
    int uses = 0;
    for_each_access(step, [&](const Access& access, Use) { uses += root(access) == root(sum); });
    return uses == 1 && back && back->to == sum && back->load() && *back->load() == product->c;
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
};

}  // namespace

void join_sums(Program& program) { SumJoiner(program).run(); }

}  // namespace mesh
