// product.cpp: matrix products bound to one rank. Rows, inner dims and columns are each one stretch of memory
// in every matrix that has them; the batch dims are loops around the product.
#include <algorithm>
#include <map>

#include "codegen/graph/builder.h"
#include "codegen/graph/dims.h"
#include "codegen/interpret/bound.h"
#include "codegen/interpret/steps.h"
#include "meshrt/gemm.h"

namespace mesh {

namespace {

class ProductBinder {
 public:
  ProductBinder(const Binding& binding, const ProductStep& step) : binding_(binding), step_(step) {}

  [[noreturn]] void fault(const std::string& what) const {
    internal_error("product " + binding_.buffer(step_.c).name + " = " + binding_.buffer(step_.a).name + " * " +
                   binding_.buffer(step_.b).name + ": " + what);
  }

  /// The dims of the access that stand in the group, which must be neighbours in the group's order.
  std::vector<size_t> stretch(const Access& access, const Dims& group) const {
    const auto held = dims_of(binding_.program, access);
    std::vector<size_t> positions;
    for (const DimId dim : group) {
      const auto found = std::ranges::find(held, dim, &LocalDim::dim);
      if (found == held.end()) continue;
      const auto at = static_cast<size_t>(found - held.begin());
      if (!positions.empty() && at != positions.back() + 1)
        fault("dims of one side do not lie side by side in " + binding_.buffer(access).name);
      positions.push_back(at);
    }
    return positions;
  }
  int64_t extent(const Access& access, const Dims& group) const {
    int64_t product = 1;
    for (const size_t at : stretch(access, group)) product *= binding_.extent(dims_of(binding_.program, access)[at]);
    return product;
  }
  /// Elements from one index of the group to the next; 0 where the access lacks it.
  int64_t stride_along(const Access& access, const Dims& group) const {
    const std::vector<size_t> positions = stretch(access, group);
    if (positions.empty()) return 0;
    return stride(binding_.program, binding_.buffer(access), access.turns.size() + positions.back(),
                  binding_.rank.rank());
  }
  int64_t stride_along(const std::optional<Access>& access, const Dims& group) const {
    return access ? stride_along(*access, group) : 0;
  }
  int64_t batch_extent(DimId dim) const {
    for (const Access* access : {&step_.c, &step_.a, &step_.b})
      if (has(*access, dim)) return extent(*access, {dim});
    fault("no matrix has its dim " + binding_.name(dim));
  }
  bool has(const Access& access, DimId dim) const {
    return std::ranges::find(dims_of(binding_.program, access), dim, &LocalDim::dim) !=
           dims_of(binding_.program, access).end();
  }

  void check() const {
    std::map<DimId, Range> parts;
    for (const Dims* group : {&step_.batch, &step_.rows, &step_.inner, &step_.cols})
      for (const DimId dim : *group) parts[dim] = {-1, -1};
    for (const Access* access : {&step_.a, &step_.b, &step_.c})
      for (const LocalDim& held : dims_of(binding_.program, *access)) {
        const auto known = parts.find(held.dim);
        if (known == parts.end())
          fault("dim " + binding_.name(held.dim) + " of " + binding_.buffer(*access).name + " has no part in it");
        if (known->second.begin < 0) known->second = binding_.range(held);
        if (known->second != binding_.range(held))
          fault("its matrices hold different parts of " + binding_.name(held.dim));
      }
    if (extent(step_.c, step_.cols) > 1 && stride_along(step_.c, step_.cols) != 1)
      fault("the columns of the result are not innermost in memory");
    if (step_.epilogue.bias && extent(step_.c, step_.cols) > 1 && stride_along(*step_.epilogue.bias, step_.cols) != 1)
      fault("the bias does not lie like the columns");
    if (step_.column_sum && extent(step_.c, step_.cols) > 1 && stride_along(*step_.column_sum, step_.cols) != 1)
      fault("the sums of columns do not lie like the columns");
    step_.epilogue.for_each_like_result([&](const Access& like_c) {
      if (!std::ranges::equal(dims_of(binding_.program, like_c), dims_of(binding_.program, step_.c)))
        fault(binding_.buffer(like_c).name + " does not lie like the result");
    });
  }

 private:
  const Binding& binding_;
  const ProductStep& step_;
};

meshrt::Activation activation_of(MapFunction function) {
  switch (function) {
    case MapFunction::relu: return meshrt::Activation::relu;
    case MapFunction::gelu: return meshrt::Activation::gelu;
    case MapFunction::gelu_tanh: return meshrt::Activation::gelu_tanh;
    case MapFunction::silu: return meshrt::Activation::silu;
    default: internal_error("a product cannot apply " + std::string(info(function).name));
  }
}

/// Of the extents of a product, those that it goes to only so far: the bounded dim leads its list.
class Stops {
 public:
  Stops(const Binding& binding, const ProductStep& step) : step_(step) {
    for (const LoopBound& bound : step.bounds) bounds_.push_back({bound.along.dim, BoundExtent(binding, bound)});
  }
  int64_t now(const Binding& binding, const Dims& group, int64_t extent) const {
    for (const auto& [dim, bound] : bounds_)
      if (has(group, dim) && bound.all() > 0) extent = extent / bound.all() * bound.now(binding);
    return extent;
  }
  template <class T, class A, class B>
  void apply(const Binding& binding, meshrt::Product<T, A, B>& product, std::vector<meshrt::Batch>& loops) const {
    product.rows = now(binding, step_.rows, product.rows);
    product.inner = now(binding, step_.inner, product.inner);
    product.cols = now(binding, step_.cols, product.cols);
    for (size_t i = 0; i < loops.size(); ++i) loops[i].count = now(binding, {step_.batch[i]}, loops[i].count);
  }
  bool none() const { return bounds_.empty(); }

 private:
  struct OfDim {
    DimId dim;
    BoundExtent extent;
  };
  const ProductStep& step_;
  std::vector<OfDim> bounds_;
};

template <class T, class A = T, class B = A>
Task bind_product(Binding& binding, const ProductStep& step) {
  const ProductBinder binder(binding, step);
  binder.check();
  meshrt::Product<T, A, B> product;
  product.rows = binder.extent(step.c, step.rows);
  product.cols = binder.extent(step.c, step.cols);
  product.inner = binder.extent(step.b, step.inner);
  product.a_row = binder.stride_along(step.a, step.rows);
  product.a_col = binder.stride_along(step.a, step.inner);
  product.b_row = binder.stride_along(step.b, step.inner);
  product.b_col = binder.stride_along(step.b, step.cols);
  product.c_row = binder.stride_along(step.c, step.rows);
  product.accumulate = step.accumulate;
  if (step.epilogue.activation) product.epilogue.activation = activation_of(*step.epilogue.activation);
  std::vector<meshrt::Batch> loops;
  for (const DimId dim : step.batch)
    loops.push_back({binder.batch_extent(dim), binder.stride_along(step.a, {dim}), binder.stride_along(step.b, {dim}),
                     binder.stride_along(step.c, {dim}), binder.stride_along(step.epilogue.bias, {dim}),
                     binder.stride_along(step.column_sum, {dim})});

  const auto typed = [&](const std::optional<Access>& access, Type type = meshrt::type_of<T>) {
    if (!access) return Pointer();
    if (binding.buffer(*access).type != type) binder.fault("its matrices have different types");
    return Pointer(binding, *access);
  };
  const auto at = [&binding]<class Element>(const Pointer& pointer, Element*& place) {
    if (pointer) place = reinterpret_cast<Element*>(pointer.at(binding));
  };
  return [&binding, at, product, loops, stops = Stops(binding, step), a = typed(step.a, meshrt::type_of<A>),
          b = typed(step.b, meshrt::type_of<B>), c = typed(step.c), bias = typed(step.epilogue.bias),
          slope = typed(step.epilogue.slope), times = typed(step.epilogue.times), plus = typed(step.epilogue.plus),
          rounded = typed(step.epilogue.rounded, Type::bf16), sum = typed(step.column_sum)] {
    meshrt::Product<T, A, B> now = product;
    at(a, now.a);
    at(b, now.b);
    at(c, now.c);
    at(bias, now.epilogue.bias);
    at(slope, now.epilogue.slope);
    at(times, now.epilogue.times);
    at(plus, now.epilogue.plus);
    at(rounded, now.epilogue.rounded);
    at(sum, now.column_sum);
    std::vector<meshrt::Batch> turns;
    if (!stops.none()) stops.apply(binding, now, turns = loops);
    const std::span<const meshrt::Batch> around = stops.none() ? loops : turns;
    if (around.empty()) meshrt::multiply(now);
    else meshrt::multiply_batch(now, around);
  };
}

/// One of its operands, or both, are narrow.
template <class Narrow>
Task bind_narrow_product(Binding& binding, const ProductStep& step) {
  if (step.rounds_b) return bind_product<float, meshrt::Bfloat16, meshrt::AsBfloat16>(binding, step);
  if (binding.buffer(step.a).type == Type::f32) return bind_product<float, float, Narrow>(binding, step);
  if (binding.buffer(step.b).type == Type::f32) return bind_product<float, Narrow, float>(binding, step);
  return bind_product<float, Narrow>(binding, step);
}

}  // namespace

Task bind_step(Binding& binding, const ProductStep& step) {
  const auto reads = [&](Type type) {
    return binding.buffer(step.a).type == type || binding.buffer(step.b).type == type;
  };
  switch (binding.buffer(step.c).type) {
    case Type::f32:
      if (reads(Type::bf16)) return bind_narrow_product<meshrt::Bfloat16>(binding, step);
      return reads(Type::f16) ? bind_narrow_product<meshrt::Float16>(binding, step)
                              : bind_product<float>(binding, step);
    case Type::f64: return bind_product<double>(binding, step);
    default: break;
  }
  internal_error(std::string("the interpreter has no products of ") + meshrt::name_of(binding.buffer(step.c).type));
}

}  // namespace mesh
