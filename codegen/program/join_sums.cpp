// join_sums.cpp: two sums that begin from zero, are only added to, and are then added to each other, are one sum. So a
// parameter that a model uses twice, as an embedding that also gives logits, has one gradient over micro-batches.
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
    uses_.removed(steps[of_second->begins]);
    uses_.removed(steps[i]);
    for (const Access& one : {first, second}) use_instead(one.buffer, total.buffer);
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

  void use_instead(BufferId from, BufferId to) {
    if (program_.buffer(from).space == Space::arena) program_.buffer(to).space = Space::arena;
    const Access memory{from, {}};
    for (const bool writes : {false, true})
      for (Step* user : std::vector<Step*>(writes ? uses_.writers(memory) : uses_.readers(memory)))
        uses_.change(*user, [&] {
          for_each_access(*user, [&](Access& access, Use) {
            if (access.buffer == from) access.buffer = to;
          });
        });
  }

  /// Nothing where more happens to it than that a step of the list begins it, steps behind that add to it, and step `i`
  /// reads it. Which of them begin from the other one's zeros does not matter.
  std::optional<Life> life(const Steps& steps, size_t i, const Access& sum, const Access& other) const {
    if (!sum.is_plain() || program_.buffer(sum.buffer).view_of || keep_[root(sum)]) return {};
    std::optional<size_t> begins;
    Life life{0, 0, i};
    for (const bool writes : {true, false})
      for (const Step* user : writes ? uses_.writers(sum) : uses_.readers(sum)) {
        const std::optional<size_t> place = uses_.place(steps, *user);
        if (!place || *place > i) return {};
        if (user == &steps[i]) continue;
        if (adds(*user, sum)) {
          life.added_to = std::min(life.added_to, *place);
        } else if (!writes) {
          life.read = std::max(life.read, *place);
        } else {
          if (user != &steps[*place] || begins || !begins_from_zero(*user, sum, other)) return {};
          begins = place;
        }
      }
    if (!begins) return {};
    life.begins = *begins;
    life.read = std::max(life.read, life.begins);
    return life;
  }

  /// Whether it fills the sum with zeros, or with what the other one begins with, and does nothing else.
  bool begins_from_zero(const Step& step, const Access& sum, const Access& other) const {
    if (const auto* fill = std::get_if<FillStep>(&step.what)) return fill->to == sum && fill->value == 0;
    const Scalar* stored = stored_alone(step, sum);
    if (stored == nullptr) return false;
    const auto* load = std::get_if<Scalar::Load>(&stored->what);
    return load ? load->access == other || is_zero(load->access) : is_literal_zero(*stored);
  }

  /// Whether it is a number that is made once, and is zero.
  bool is_zero(const Access& access) const {
    const std::vector<Step*>& writers = uses_.writers(access);
    if (!access.is_plain() || writers.size() != 1) return false;
    const Scalar* stored = stored_alone(*writers.front(), access);
    return stored != nullptr && is_literal_zero(*stored);
  }

  static bool is_literal_zero(const Scalar& scalar) {
    const auto* number = std::get_if<Scalar::Literal>(&scalar.what);
    return number && number->value == 0;
  }

  /// What a step that does nothing else stores there as it is.
  static const Scalar* stored_alone(const Step& step, const Access& to) {
    const auto* nest = std::get_if<Nest>(&step.what);
    if (!nest || !nest->outer.empty() || nest->passes.size() != 1) return nullptr;
    const Pass& pass = nest->passes[0];
    return pass.scalars.size() == 1 && pass.stores.size() == 1 && pass.stores[0].to == to ? &pass.scalars[0] : nullptr;
  }

  /// Whether all that the step does with the memory is to add to it.
  bool adds(const Step& step, const Access& sum) const {
    if (const std::optional<SingleMap> map = single_map(step); map && root(map->to) == root(sum))
      return map->function == MapFunction::add && reads_once(step, sum) &&
             ((map->load(0) && *map->load(0) == map->to) || (map->load(1) && *map->load(1) == map->to));
    const auto* rows = std::get_if<ScatterStep>(&step.what);
    if (rows && rows->reduce != Reduce::sum) return false;
    if (const auto* nest = std::get_if<Nest>(&step.what)) {
      for (const Pass& pass : nest->passes)
        for (const Pass::Accumulate& one : pass.accumulates)
          if (root(one.to) == root(sum) && one.reduce != Reduce::sum) return false;
    } else if (!rows && !std::holds_alternative<ProductStep>(step.what)) {
      return false;
    }
    bool only_adds = true;
    for_each_access(step, [&](const Access& access, Use use) {
      only_adds = only_adds && (root(access) != root(sum) || (access.buffer == sum.buffer && use == Use::update));
    });
    return only_adds;
  }

  bool reads_once(const Step& step, const Access& sum) const {
    int reads = 0;
    bool own = true;  // by its own name
    for_each_access(step, [&](const Access& access, Use use) {
      if (root(access) != root(sum)) return;
      reads += use == Use::read;
      own = own && access.buffer == sum.buffer;
    });
    return own && reads == 1;
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
};

}  // namespace

void join_sums(Program& program) { SumJoiner(program).run(); }

}  // namespace mesh
