// conv.h: convolution as the compiler knows it: one relation of three tensors, of which each op makes one from the two
// others. What is summed over stands in both of these and not in the one that is made.
#pragma once
#include "codegen/ops/windows.h"
#include "codegen/program/step.h"

namespace mesh {

/// Which tensor: x has the wide dims, w the kernel's, y the narrow ones. Of other dims, the ones that all three have
/// are groups, those of x and y batch, of x and w channels in, of w and y channels out.
enum class ConvTensor : uint8_t { y, x, w };

/// y from (x, w): convolution. x from (y, w): its transpose. w from (x, y): the gradient of its weights.
struct Conv {
  ConvTensor makes;
  std::vector<WindowedDim> windows;
  Dims result;  // the dims of what is made, in their order

  Op op() const;
  static Conv of(const DefinedOp& op);
  static Conv of(const Node& node) { return of(std::get<DefinedOp>(node.op)); }
};

extern const StepDefinition conv_step;

/// The dims of the three tensors, as one says of each: of a node its types', of a step those of its accesses.
struct ConvDims {
  ConvTensor made;
  Dims x, w, y;

  Dims batch(const std::vector<WindowedDim>&) const;
  Dims groups(const std::vector<WindowedDim>&) const;
  Dims in(const std::vector<WindowedDim>&) const;
  Dims out(const std::vector<WindowedDim>&) const;
  /// As the kernel reads and writes them: classes of dims in this order, the dims of each as an operand has them.
  Dims x_order(const std::vector<WindowedDim>&) const;
  Dims w_order(const std::vector<WindowedDim>&) const;
  Dims y_order(const std::vector<WindowedDim>&) const;

  Dims order_of(ConvTensor tensor, const std::vector<WindowedDim>& windows) const {
    return tensor == ConvTensor::x ? x_order(windows) : tensor == ConvTensor::w ? w_order(windows) : y_order(windows);
  }
};

/// Of the tensors by which is made: where each stands among operands; the made one is none of them.
constexpr size_t operand_of(ConvTensor made, ConvTensor tensor) {
  if (made == ConvTensor::w) return tensor == ConvTensor::x ? 0 : 1;
  return tensor == ConvTensor::w ? 1 : 0;
}

}  // namespace mesh
