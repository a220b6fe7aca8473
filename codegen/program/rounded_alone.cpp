// rounded_alone.cpp: products of which nobody reads more than what they round to bf16 need not store their result.
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/walk.h"

namespace mesh {

void mark_rounded_alone(Program& program) {
  const std::vector<bool> keep = outlive_routine(program);
  const MemoryUses uses(program);
  for_each_list(program, [&](Steps& steps) {
    for (Step& step : steps) {
      auto* p = std::get_if<ProductStep>(&step.what);
      if (!p || !p->epilogue.rounded || p->accumulate) continue;
      p->epilogue.rounded_alone = !keep[storage(program, p->c.buffer).index] && uses.readers(p->c).empty();
    }
  });
}

}  // namespace mesh
