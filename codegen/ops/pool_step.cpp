// pool_step.cpp: the step that pooling is lowered to: a call of the runtime (meshrt/pool.h), which the interpreter
// makes as the emitted program does.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_steps.h"
#include "codegen/interpret/steps.h"
#include "codegen/ops/pool.h"
#include "codegen/program/extent.h"
#include "codegen/program/print_program.h"
#include "meshrt/pool.h"

namespace mesh {
namespace {

using Say = std::function<void(const std::string&)>;

struct PoolStep {
  const Program& program;
  const DefinedStep& step;
  Pool pool = Pool::of(DefinedOp{nullptr, step.dims, step.numbers});

  const Access& operand() const { return step.reads.back(); }
  WindowAccess windows() const {
    const Access &from = operand(), &to = step.writes[0];
    return {pool.makes_wide() ? to : from, pool.makes_wide() ? from : to, pool.windows};
  }
  Dims names(const Access& access) const {
    Dims names;
    for (const LocalDim& local : dims_of(program, access)) names.push_back(local.dim);
    return names;
  }
  /// Of the dims that no windows move along, those in front of these, or those behind.
  std::function<bool(DimId)> beside(bool in_front) const {
    const Dims all = names(operand()), moving = pool.makes_wide() ? narrow_dims(pool.windows) : wide_dims(pool.windows);
    const auto first = std::ranges::find(all, moving.front());
    const Dims front(all.begin(), first);
    return [=](DimId dim) { return !has(moving, dim) && has(front, dim) == in_front; };
  }
};

std::string pool_step_text(const Program& program, const DefinedStep& step) {
  const PoolStep of{program, step};
  std::string to = to_string(program, step.writes[0]), from = to_string(program, step.reads[0]);
  if (step.writes.size() > 1) to += ", " + to_string(program, step.writes[1]);
  if (step.reads.size() > 1) from += ", " + to_string(program, step.reads[1]);
  return fmt::format("{} = {}[{}] {}", to, of.pool.name(),
                     windows_text(program.sharded.graph, of.pool.windows, of.pool.makes_wide()), from);
}

void verify_pool_step(const Program& program, const DefinedStep& step, const Say& say) {
  const PoolStep of{program, step};
  const Dims order = of.names(of.operand());
  bool lies = order == of.pool.order(order);
  for (const Access& access : step.reads) lies = lies && of.names(access) == order;
  for (const Access& access : step.writes) lies = lies && of.names(access) == of.pool.changed(order);
  if (!lies) say("has operands and results that do not lie as the kernel walks");
  for (const Access& access : step.reads)
    if (!std::ranges::equal(dims_of(program, access), dims_of(program, of.operand())))
      say("has operands that are not held alike");
  verify_windows(program, step, of.windows(), of.pool.makes_wide(), say);
}

std::string pool_step_shapes(const EmitContext& context, const DefinedStep& step) {
  return local_shape(context, step.reads[0]) + " -> " + local_shape(context, step.writes[0]);
}

void emit_pool_step(EmitContext& context, CppWriter& out, const DefinedStep& step) {
  const PoolStep of{context.program, step};
  std::string buffers;
  for (const std::vector<Access>* side : {&step.reads, &step.writes})
    for (const Access& access : *side) buffers += ", " + address(context, access);
  out.line(fmt::format("meshrt::{}<{}>({}, {{{}, {}}}{});", of.pool.name(),
                       cpp_type(context.program.buffer(of.operand().buffer).type), windows_cpp(context, of.windows()),
                       extent_of(context, of.operand(), of.beside(true)),
                       extent_of(context, of.operand(), of.beside(false)), buffers));
}

template <class T>
Task pool_step_bound(Binding& binding, const DefinedStep& step) {
  const PoolStep of{binding.program, step};
  const meshrt::PoolExtents extents{extent_of(binding, of.operand(), of.beside(true)),
                                    extent_of(binding, of.operand(), of.beside(false))};
  const Pointer first(binding, step.reads[0]), second(binding, step.reads.back()), to(binding, step.writes[0]),
      chosen(binding, step.writes.back());
  return
      [&binding, kind = of.pool.kind, held = bound_windows(binding, of.windows()), extents, first, second, to, chosen] {
        const auto read = [&](const Pointer& at) { return reinterpret_cast<const T*>(at.at(binding)); };
        T* const made = reinterpret_cast<T*>(to.at(binding));
        switch (kind) {
          case PoolKind::max:
            return meshrt::max_pool(held[0], held[1], held[2], extents, read(first), made,
                                    reinterpret_cast<int32_t*>(chosen.at(binding)));
          case PoolKind::max_gradient:
            return meshrt::max_pool_gradient(held[0], held[1], held[2], extents,
                                             reinterpret_cast<const int32_t*>(first.at(binding)), read(second), made);
          case PoolKind::avg: return meshrt::avg_pool(held[0], held[1], held[2], extents, read(first), made);
          case PoolKind::avg_gradient:
            return meshrt::avg_pool_gradient(held[0], held[1], held[2], extents, read(first), made);
        }
      };
}

Task bind_pool_step(Binding& binding, const DefinedStep& step) {
  switch (const Type type = binding.buffer(step.reads.back()).type) {
    case Type::f32: return pool_step_bound<float>(binding, step);
    case Type::f64: return pool_step_bound<double>(binding, step);
    default: internal_error(std::string("the interpreter cannot pool ") + meshrt::name_of(type));
  }
}

}  // namespace

constinit const StepDefinition pool_step{
    .name = "pool",
    .is_light = false,
    .convolves = false,
    .text = pool_step_text,
    .verify = verify_pool_step,
    .shapes = pool_step_shapes,
    .emit = emit_pool_step,
    .bind = bind_pool_step,
};

}  // namespace mesh
