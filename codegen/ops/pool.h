// pool.h: pooling as the compiler knows it: what each window holds becomes one element, and the reverse.
#pragma once
#include "codegen/ops/windows.h"
#include "codegen/program/step.h"

namespace mesh {

enum class PoolKind : uint8_t {
  max,           // (x) -> (the largest of each window, i32: which of its elements that is)
  max_gradient,  // (which, d) -> d at the elements that were chosen, added up
  avg,           // (x) -> the mean of each window
  avg_gradient   // (d) -> its share to each element of a window, added up
};

struct Pool {
  PoolKind kind;
  std::vector<WindowedDim> windows;

  Op op() const;
  static Pool of(const DefinedOp& op);
  static Pool of(const Node& node) { return of(std::get<DefinedOp>(node.op)); }

  bool makes_wide() const { return kind == PoolKind::max_gradient || kind == PoolKind::avg_gradient; }
  const char* name() const;
  /// The dims of an operand as the kernel walks along them: those of the windows side by side, what lies in front of
  /// them, and the others behind.
  Dims order(const Dims& operand) const;
  /// What that is of the result.
  Dims changed(const Dims& operand) const {
    return makes_wide() ? widened(operand, windows) : narrowed(operand, windows);
  }
};

extern const StepDefinition pool_step;

}  // namespace mesh
