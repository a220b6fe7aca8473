// add_in_place.cpp: where a product adds a value to its sum, and nobody needs the value afterwards, the value is made
// where the sum comes to lie: the product adds to what is there, and one array less passes through the caches.
#include <algorithm>
#include <vector>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

class SumsInPlace {
 public:
  explicit SumsInPlace(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (size_t i = 0; i < steps.size(); ++i) {
        const auto* p = std::get_if<ProductStep>(&steps[i].what);
        if (p && adds_alone(*p) && dies_at(steps, i, *p->epilogue.plus) && has_place(steps, i)) add_to(steps[i]);
      }
    });
  }

 private:
  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }

  /// Whether nothing but a bias happens to the sum of products on its way to the result, which is all of a buffer.
  bool adds_alone(const ProductStep& p) const {
    const ProductStep::Epilogue& e = p.epilogue;
    if (!e.plus || e.activation || e.slope || e.times || e.rounded || p.column_sum || p.accumulate) return false;
    return is_whole(*e.plus) && is_whole(p.c);  // which lie alike, and are of one type
  }

  bool is_whole(const Access& access) const { return access.is_plain() && !program_.buffer(access.buffer).view_of; }

  /// Whether the value is made in this list, and step `i`, which reads it once, is the last that uses it.
  bool dies_at(const Steps& steps, size_t i, const Access& value) const {
    if (keep_[root(value)] || !uses_.only_here(steps, value) || uses_.users(steps, value).back() != i) return false;
    const std::vector<size_t> readers = uses_.readers(steps, value), writers = uses_.writers(steps, value);
    if (writers.empty() || (!readers.empty() && readers.front() <= writers.front())) return false;
    int reads = 0;
    for_each_access(steps[i], [&](const Access& other, Use) { reads += root(other) == root(value); });
    return reads == 1;
  }

  /// Whether nobody uses the memory of the result while the value is there.
  bool has_place(const Steps& steps, size_t i) const {
    const ProductStep& p = std::get<ProductStep>(steps[i].what);
    const size_t first = uses_.users(steps, *p.epilogue.plus).front();
    return std::ranges::none_of(uses_.users(steps, p.c), [&](size_t user) { return first <= user && user < i; });
  }

  void add_to(Step& step) {
    auto& p = std::get<ProductStep>(step.what);
    const Access value = *p.epilogue.plus, result = p.c;
    uses_.use_instead(value, result);
    uses_.change(step, [&] {
      p.epilogue.plus.reset();
      p.accumulate = true;
    });
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
};

}  // namespace

void add_in_place(Program& program) { SumsInPlace(program).run(); }

}  // namespace mesh
