// conv_step.cpp: the step that a convolution is lowered to: a call of the runtime (meshrt/conv.h), which the
// interpreter makes as the emitted program does.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_steps.h"
#include "codegen/interpret/steps.h"
#include "codegen/ops/conv.h"
#include "codegen/program/extent.h"
#include "codegen/program/print_program.h"
#include "meshrt/conv.h"

namespace mesh {
namespace {

using Say = std::function<void(const std::string&)>;

/// The step's tensors, by which of them it makes.
struct ConvStep {
  const Program& program;
  const DefinedStep& step;
  Conv conv = Conv::of(DefinedOp{nullptr, step.dims, step.numbers});

  const Access& access(ConvTensor tensor) const {
    return tensor == conv.makes ? step.writes[0] : step.reads[operand_of(conv.makes, tensor)];
  }
  Dims names(ConvTensor tensor) const {
    Dims names;
    for (const LocalDim& local : dims_of(program, access(tensor))) names.push_back(local.dim);
    return names;
  }
  ConvDims dims() const { return {conv.makes, names(ConvTensor::x), names(ConvTensor::w), names(ConvTensor::y)}; }
  WindowAccess windows() const { return {access(ConvTensor::x), access(ConvTensor::y), conv.windows}; }
};

std::string conv_step_text(const Program& program, const DefinedStep& step) {
  const ConvStep of{program, step};
  constexpr std::array names{"conv", "conv_transpose", "conv_weights"};
  return fmt::format("{} = {}[{}] {}, {}", to_string(program, step.writes[0]),
                     names[static_cast<size_t>(of.conv.makes)],
                     windows_text(program.sharded.graph, of.conv.windows, of.conv.makes == ConvTensor::x),
                     to_string(program, step.reads[0]), to_string(program, step.reads[1]));
}

void verify_conv_step(const Program& program, const DefinedStep& step, const Say& say) {
  const ConvStep of{program, step};
  const ConvDims dims = of.dims();
  if (dims.x != dims.x_order(of.conv.windows) || dims.w != dims.w_order(of.conv.windows) ||
      dims.y != dims.y_order(of.conv.windows))
    say("has a tensor whose dims do not lie as the kernel reads them");
  verify_windows(program, step, of.windows(), of.conv.makes == ConvTensor::x, say);
  for (const Access* access : {&step.reads[0], &step.reads[1]})
    if (program.buffer(access->buffer).type != program.buffer(step.reads[0].buffer).type ||
        computed_in(program.buffer(access->buffer).type) != program.buffer(step.writes[0].buffer).type)
      say("meets another element type than its result is computed from");
  for (const LocalDim& local : dims_of(program, of.access(ConvTensor::w)))
    if (has(kernel_dims(of.conv.windows), local.dim) && local.placement != DimPlacement{})
      say("has a part of its windows alone");
}

std::string conv_step_shapes(const EmitContext& context, const DefinedStep& step) {
  return local_shape(context, step.reads[0]) + ", " + local_shape(context, step.reads[1]) + " -> " +
         local_shape(context, step.writes[0]);
}

void emit_conv_step(EmitContext& context, CppWriter& out, const DefinedStep& step) {
  const ConvStep of{context.program, step};
  const ConvDims dims = of.dims();
  const std::vector<WindowedDim>& windows = of.conv.windows;
  const auto extent = [&](ConvTensor tensor, const Dims& group) {
    return extent_of(context, of.access(tensor), [&](DimId dim) { return has(group, dim); });
  };
  constexpr std::array calls{"conv", "conv_transpose", "conv_weights"};
  out.line(fmt::format("meshrt::{}<{}>({}, {{{}, {}, {}, {}}}, {}, {}, {});", calls[static_cast<size_t>(of.conv.makes)],
                       cpp_type(context.program.buffer(step.writes[0].buffer).type), windows_cpp(context, of.windows()),
                       extent(ConvTensor::x, dims.batch(windows)), extent(ConvTensor::w, dims.groups(windows)),
                       extent(ConvTensor::w, dims.in(windows)), extent(ConvTensor::w, dims.out(windows)),
                       address(context, step.reads[0]), address(context, step.reads[1]),
                       address(context, step.writes[0])));
}

template <class T, class In = T>
Task conv_step_bound(Binding& binding, const DefinedStep& step) {
  const ConvStep of{binding.program, step};
  const ConvDims dims = of.dims();
  const std::vector<WindowedDim>& windows = of.conv.windows;
  const auto extent = [&](ConvTensor tensor, const Dims& group) {
    return extent_of(binding, of.access(tensor), [&](DimId dim) { return has(group, dim); });
  };
  const meshrt::ConvExtents extents{extent(ConvTensor::x, dims.batch(windows)),
                                    extent(ConvTensor::w, dims.groups(windows)),
                                    extent(ConvTensor::w, dims.in(windows)), extent(ConvTensor::w, dims.out(windows))};
  using Call = void (*)(const meshrt::WindowDim&, const meshrt::WindowDim&, const meshrt::WindowDim&,
                        const meshrt::ConvExtents&, const In* first, const In* second, T* result);
  constexpr std::array<Call, 3> calls{meshrt::conv<T, In>, meshrt::conv_transpose<T, In>, meshrt::conv_weights<T, In>};
  return [&binding, call = calls[static_cast<size_t>(of.conv.makes)], held = bound_windows(binding, of.windows()),
          extents, first = Pointer(binding, step.reads[0]), second = Pointer(binding, step.reads[1]),
          result = Pointer(binding, step.writes[0])] {
    call(held[0], held[1], held[2], extents, reinterpret_cast<const In*>(first.at(binding)),
         reinterpret_cast<const In*>(second.at(binding)), reinterpret_cast<T*>(result.at(binding)));
  };
}

Task bind_conv_step(Binding& binding, const DefinedStep& step) {
  switch (const Type type = binding.buffer(step.reads[0]).type) {
    case Type::bf16: return conv_step_bound<float, meshrt::Bfloat16>(binding, step);
    case Type::f16: return conv_step_bound<float, meshrt::Float16>(binding, step);
    case Type::f32: return conv_step_bound<float>(binding, step);
    case Type::f64: return conv_step_bound<double>(binding, step);
    default: internal_error(std::string("the interpreter has no convolutions of ") + meshrt::name_of(type));
  }
}

}  // namespace

constinit const StepDefinition conv_step{
    .name = "conv",
    .is_light = false,
    .convolves = true,
    .text = conv_step_text,
    .verify = verify_conv_step,
    .shapes = conv_step_shapes,
    .emit = emit_conv_step,
    .bind = bind_conv_step,
};

}  // namespace mesh
