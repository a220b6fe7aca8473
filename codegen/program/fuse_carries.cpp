// fuse_carries.cpp: where the last step of a turn copies a product's result into a carry, the product writes the carry
// itself; where a turn begins with a copy of the carry, adds to that and copies it back, it adds to the carry.
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

class CarryFuser {
 public:
  explicit CarryFuser(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (size_t i = 0; i < steps.size(); ++i) {
        if (uses_.is_removed(steps[i])) continue;
        const std::optional<size_t> written = write_carry(steps, i), updated = update_carry(steps, i);
        if (written) uses_.removed(steps[*written]);
        if (!updated) continue;
        uses_.removed(steps[*updated]);
        uses_.removed(steps[i]);
      }
    });
    uses_.sweep();
  }

 private:
  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }
  bool is_view(const Access& access) const { return bool(program_.buffer(access.buffer).view_of); }

  /// The step that copies what product `i` makes, which is not needed any more.
  std::optional<size_t> write_carry(Steps& steps, size_t i) {
    ProductStep* p = std::get_if<ProductStep>(&steps[i].what);
    if (!p) return {};
    const Access made = p->c;
    if (!made.turns.empty() || keep_[root(made)] || is_view(made)) return {};
    const std::vector<size_t> readers = uses_.readers(steps, made);
    const auto found = std::ranges::find_if(
        readers, [&](size_t reader) { return reader > i && copied_to(steps[reader], made) != nullptr; });
    if (found == readers.end()) return {};
    const size_t at = *found;
    const Access carry = *copied_to(steps[at], made);
    if (!carry.maps.empty() || is_view(carry) || !may_write(*p, carry)) return {};
    // A forward step that another entry executes too would change the stored tensor.
    if (!carry.turns.empty() && program_.buffer(storage(program_, carry.buffer)).stored) return {};
    // What the carry held nobody reads behind the product, and the product's result nobody before it or elsewhere; what
    // is copied stays as it is.
    if (std::ranges::any_of(uses_.users(steps, carry), [&](size_t user) { return user > i && user != at; })) return {};
    if (uses_.users(steps, made).front() < i || uses_.writers(steps, made).back() > at) return {};
    if (!uses_.only_here(steps, made)) return {};
    uses_.use_instead(made, carry);
    if (p->epilogue.plus == carry)
      uses_.change(steps[i], [&] {
        p->epilogue.plus.reset();
        p->accumulate = true;
      });
    swallow(steps[i], steps[at]);
    return at;
  }

  /// The step that copies back what step `i` has copied of a carry, and others have added to since.
  std::optional<size_t> update_carry(Steps& steps, size_t i) {
    const std::optional<Copy> begins = copy_of(program_, steps[i]);
    if (!begins) return {};
    const auto [carry, made] = *begins;
    for (const Access& one : {carry, made})
      if (!one.is_plain() || is_view(one) || keep_[root(one)]) return {};
    if (program_.buffer(carry.buffer).type != program_.buffer(made.buffer).type || !uses_.only_here(steps, made))
      return {};
    // The next step that touches the carry copies it back, and is the last that touches what was made.
    const std::vector<size_t> of_carry = uses_.users(steps, carry), of_made = uses_.users(steps, made);
    const auto back = std::ranges::upper_bound(of_carry, i);
    if (back == of_carry.end() || of_made.front() < i || of_made.back() > *back) return {};
    if (const Access* to = copied_to(steps[*back], made); !to || *to != carry) return {};
    uses_.use_instead(made, carry);
    return *back;
  }

  /// Where the step copies all of `made` to, and does nothing else.
  const Access* copied_to(const Step& step, const Access& made) const {
    const std::optional<Copy> copy = copy_of(program_, step);
    return copy && copy->from == made ? &std::get<Nest>(step.what).passes[0].stores[0].to : nullptr;
  }

  /// Whether the product can have its result in the carry's memory: it reads it only to add to it, which is what
  /// `accumulate` does.
  bool may_write(const ProductStep& p, const Access& carry) const {
    for (const auto& other : {std::optional(p.a), std::optional(p.b), p.epilogue.bias, p.epilogue.slope,
                              p.epilogue.times, p.epilogue.rounded, p.column_sum})
      if (other && root(*other) == root(carry)) return false;
    if (!p.epilogue.plus || root(*p.epilogue.plus) != root(carry)) return true;
    return *p.epilogue.plus == carry && !p.epilogue.activation && !p.epilogue.times && !p.column_sum && !p.accumulate;
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
};

}  // namespace

void fuse_carries(Program& program) { CarryFuser(program).run(); }

}  // namespace mesh
