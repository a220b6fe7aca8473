#include "codegen/program/bound.h"

#include <algorithm>
#include <optional>

#include "codegen/graph/dims.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

bool is_inside(const std::vector<DimId>& group, DimId dim) { return has(group, dim) && group.front() != dim; }

bool can_stop_along(const Program& program, const Step& step, DimId dim) {
  bool can = true;
  for_each_access(step, [&](const Access& access, Use) {
    for (const LocalDim& local : program.buffer(access.buffer).dims)
      can = can && (local.dim != dim || !local.placement.deal);
  });
  const auto* product = std::get_if<ProductStep>(&step.what);
  return can && !(product &&
                  (is_inside(product->rows, dim) || is_inside(product->inner, dim) || is_inside(product->cols, dim)));
}

std::optional<LocalDim> found(std::span<const LocalDim> dims, DimId dim) {
  const auto at = std::ranges::find(dims, dim, &LocalDim::dim);
  return at == dims.end() ? std::nullopt : std::optional(*at);
}

/// The dim as the step walks along it.
std::optional<LocalDim> walked(const Program&, const Nest& nest, DimId dim) {
  std::optional<LocalDim> at = found(nest.outer, dim);
  for (const Pass& pass : nest.passes)
    if (!at) at = found(pass.inner, dim);
  return at;
}
std::optional<LocalDim> walked(const Program& program, const ProductStep& product, DimId dim) {
  std::optional<LocalDim> at;
  for (const Access* access : {&product.a, &product.b, &product.c})
    if (!at) at = found(dims_of(program, *access), dim);
  return at;
}

}  // namespace

void bound_steps(Program& program) {
  for (Routine& routine : program.routines)
    for (const auto& [dim, last] : routine.bounds) {
      bool can = true;
      for_each_step(routine.steps,
                    [&, &along = dim](const Step& step) { can = can && can_stop_along(program, step, along); });
      if (!can) continue;
      const auto bound = [&, &along = dim, &index = last](auto* step) {
        if (step == nullptr) return;
        if (const std::optional<LocalDim> at = walked(program, *step, along))
          step->bounds.push_back({*at, Access{index, {}}});
      };
      for_each_step(routine.steps, [&](Step& step) {
        bound(std::get_if<Nest>(&step.what));
        bound(std::get_if<ProductStep>(&step.what));
      });
    }
}

}  // namespace mesh
