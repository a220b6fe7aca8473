// fuse_carries.cpp: where the last step of a turn copies a product's result into a carry, the product writes the carry
// itself.
#include <algorithm>
#include <optional>
#include <set>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/single_map.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

class CarryFuser {
 public:
  explicit CarryFuser(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (size_t i = 0; i + 1 < steps.size(); ++i) {
        const std::optional<size_t> copy = write_carry(steps, i);
        if (!copy) continue;
        steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(*copy));
        uses_ = MemoryUses(program_);
      }
    });
  }

 private:
  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }
  bool is_view(const Access& access) const { return bool(program_.buffer(access.buffer).view_of); }
  bool touches(const Step& step, const Access& access) const {
    const StepSets sets = sets_of(program_, step);
    return contains(sets.reads, root(access)) || contains(sets.writes, root(access));
  }

  /// The step that copies what product `i` makes, which is not needed any more.
  std::optional<size_t> write_carry(Steps& steps, size_t i) {
    ProductStep* p = std::get_if<ProductStep>(&steps[i].what);
    if (!p) return {};
    const Access made = p->c;
    if (!made.turns.empty() || keep_[root(made)] || is_view(made)) return {};
    const auto at = std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end(),
                                 [&](const Step& step) { return copied_to(step, made) != nullptr; });
    if (at == steps.end()) return {};
    const Access carry = *copied_to(*at, made);
    if (!carry.turns.empty() || !carry.maps.empty() || is_view(carry) || !may_write(*p, carry)) return {};
    // What the carry held nobody reads behind the product, and the product's result nobody before it or elsewhere.
    for (auto step = steps.begin() + static_cast<std::ptrdiff_t>(i) + 1; step != steps.end(); ++step)
      if (step != at && touches(*step, carry)) return {};
    for (size_t k = 0; k < i; ++k)
      if (touches(steps[k], made)) return {};
    if (!only_here(steps, made)) return {};
    use_instead(program_, steps, made, carry);
    if (p->epilogue.plus == carry) {
      p->epilogue.plus.reset();
      p->accumulate = true;
    }
    swallow(steps[i], *at);
    return static_cast<size_t>(at - steps.begin());
  }

  /// Where the step copies all of `made` to, and does nothing else.
  const Access* copied_to(const Step& step, const Access& made) const {
    const auto* nest = std::get_if<Nest>(&step.what);
    if (!nest || nest->passes.size() != 1 || !nest->outer.empty()) return nullptr;
    const Pass& pass = nest->passes[0];
    const auto* load = pass.scalars.size() == 1 ? std::get_if<Scalar::Load>(&pass.scalars[0].what) : nullptr;
    const bool copies = load && load->access == made && pass.stores.size() == 1;
    return copies && same_dims(program_, pass.stores[0].to, made) ? &pass.stores[0].to : nullptr;
  }

  /// Whether the product can have its result in the carry's memory: it reads it only to add to it, which is what
  /// `accumulate` does.
  bool may_write(const ProductStep& p, const Access& carry) const {
    for (const auto& other :
         {std::optional(p.a), std::optional(p.b), p.epilogue.bias, p.epilogue.slope, p.epilogue.times, p.column_sum})
      if (other && root(*other) == root(carry)) return false;
    if (!p.epilogue.plus || root(*p.epilogue.plus) != root(carry)) return true;
    return *p.epilogue.plus == carry && !p.epilogue.activation && !p.epilogue.times && !p.column_sum && !p.accumulate;
  }

  /// Whether no step outside this body uses the memory, and none under another name.
  bool only_here(const Steps& steps, const Access& access) const {
    std::set<const Step*> here;
    for_each_step(steps, [&](const Step& step) { here.insert(&step); });
    const auto is_here = [&](const Step* step) { return here.contains(step); };
    if (!std::ranges::all_of(uses_.readers(access), is_here) || !std::ranges::all_of(uses_.writers(access), is_here))
      return false;
    bool same = true;
    for (const Step& step : steps)
      for_each_access(
          step, [&](const Access& other, Use) { same = same && (root(other) != root(access) || other == access); });
    return same;
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
};

}  // namespace

void fuse_carries(Program& program) { CarryFuser(program).run(); }

}  // namespace mesh
