#include "codegen/emit/emit_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_bounds.h"
#include "codegen/emit/emit_nest.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"

namespace mesh {

std::string stride_along(EmitContext& context, const Access& access, const std::vector<DimId>& dims) {
  const std::span<const LocalDim> held = dims_of(context.program, access);
  for (size_t i = held.size(); i-- > 0;)
    if (std::ranges::find(dims, held[i].dim) != dims.end()) return context.names.product(held.subspan(i + 1));
  return "0";
}

std::string extent_along(EmitContext& context, const Access& access, const std::vector<DimId>& dims) {
  std::vector<LocalDim> found;
  for (const LocalDim& held : dims_of(context.program, access))
    if (std::ranges::find(dims, held.dim) != dims.end()) found.push_back(held);
  return context.names.product(found);
}

bool has_dim(const EmitContext& context, const Access& access, DimId dim) {
  const std::span<const LocalDim> held = dims_of(context.program, access);
  return std::ranges::find(held, dim, &LocalDim::dim) != held.end();
}

namespace {

std::string type_of(const EmitContext& context, const Access& access) {
  return cpp_type(context.program.buffer(access.buffer).type);
}

std::string matrix(EmitContext& context, const Access& access, const std::vector<DimId>& rows,
                   const std::vector<DimId>& columns) {
  std::string column = stride_along(context, access, columns);
  if (columns.empty()) column = "1";
  return fmt::format("{{{}, {}{}}}", address(context, access), stride_along(context, access, rows),
                     column == "1" ? "" : ", " + column);
}

std::string activation_name(MapFunction function) {
  switch (function) {
    case MapFunction::relu: return "relu";
    case MapFunction::gelu: return "gelu";
    case MapFunction::gelu_tanh: return "gelu_tanh";
    case MapFunction::silu: return "silu";
    default: internal_error("a product cannot apply " + std::string(info(function).name));
  }
}

}  // namespace

void emit_product(EmitContext& context, CppWriter& out, Scope& scope, const ProductStep& step) {
  const std::map<DimId, std::string> stops = declare_bounds(context, out, scope, step.bounds);
  const auto extent = [&](const Access& access, const std::vector<DimId>& dims) {
    const auto stop = dims.empty() ? stops.end() : stops.find(dims.front());
    if (stop == stops.end()) return extent_along(context, access, dims);
    const std::string rest = extent_along(context, access, {dims.begin() + 1, dims.end()});
    return rest == "1" ? stop->second : stop->second + " * " + rest;
  };
  std::vector<std::string> epilogue, extras;
  const auto set = [&](const char* key, const std::optional<Access>& access) {
    if (access) epilogue.push_back(fmt::format(".{} = {}", key, address(context, *access)));
  };
  set("bias", step.epilogue.bias);
  set("slope", step.epilogue.slope);
  if (step.epilogue.activation)
    epilogue.push_back(".activation = meshrt::Activation::" + activation_name(*step.epilogue.activation));
  set("times", step.epilogue.times);
  set("plus", step.epilogue.plus);
  if (step.accumulate) extras.emplace_back(".accumulate = true");
  if (!epilogue.empty()) extras.push_back(fmt::format(".epilogue = {{{}}}", fmt::join(epilogue, ", ")));
  if (step.epilogue.rounded)
    extras.push_back((step.epilogue.rounded_alone ? ".rounded_alone = " : ".rounded = ") +
                     address(context, *step.epilogue.rounded));
  if (step.column_sum) extras.push_back(".column_sum = " + address(context, *step.column_sum));

  std::vector<std::string> loops;
  for (const DimId dim : step.batch) {
    const std::vector<DimId> one{dim};
    const auto stride = [&](const std::optional<Access>& access) {
      return access ? stride_along(context, *access, one) : "0";
    };
    const auto holder = [&]() -> const Access& {
      for (const Access* access : {&step.c, &step.a, &step.b})
        if (has_dim(context, *access, dim)) return *access;
      internal_error("no operand of a product has its dim " + context.graph().dim(dim).name);
    };
    std::string loop =
        fmt::format("{{{}, {}, {}, {}", extent(holder(), one), stride(step.a), stride(step.b), stride(step.c));
    if (step.epilogue.bias || step.column_sum)
      loop += fmt::format(", {}, {}", stride(step.epilogue.bias), stride(step.column_sum));
    loops.push_back(loop + "}");
  }
  const std::string a = type_of(context, step.a), b = step.rounds_b ? "meshrt::AsBfloat16" : type_of(context, step.b);
  std::string types = type_of(context, step.c);
  if (a != types || b != a) types += ", " + a;
  if (b != a) types += ", " + b;
  std::string call = fmt::format(
      "meshrt::product<{}>({}, {}, {}, {{{}, {}, {}}}", types, matrix(context, step.a, step.rows, step.inner),
      matrix(context, step.b, step.inner, step.cols), matrix(context, step.c, step.rows, step.cols),
      extent(step.c, step.rows), extent(step.b, step.inner), extent(step.c, step.cols));
  if (!extras.empty() || !loops.empty()) call += fmt::format(", {{{}}}", fmt::join(extras, ", "));
  if (!loops.empty()) call += fmt::format(", {{{}}}", fmt::join(loops, ", "));
  out.line(call + ");");
}

void emit_copy(EmitContext& context, CppWriter& out, Scope& scope, const CopyStep& step) {
  const auto from = dims_of(context.program, step.from), to = dims_of(context.program, step.to);
  if (std::ranges::equal(from, to)) {
    out.line(fmt::format("std::copy_n({}, {}, {});", address(context, step.from), elements(context, step.from),
                         address(context, step.to)));
    return;
  }
  // Of a dim that one side holds in part, only that part is moved.
  Pass pass;
  for (const LocalDim& target : to) {
    const auto source = std::ranges::find(from, target.dim, &LocalDim::dim);
    if (source == from.end())
      internal_error("a copy to " + context.program.buffer(step.to.buffer).name + " lacks a dim");
    pass.inner.push_back(source->placement.axes.size() > target.placement.axes.size() ? *source : target);
  }
  pass.scalars.push_back({Scalar::Load{step.from}, context.program.buffer(step.from.buffer).type});
  pass.stores.push_back({0, step.to});
  emit_nest(context, out, scope, Nest{{}, {std::move(pass)}, {}});
}

void emit_fill(EmitContext& context, CppWriter& out, const FillStep& step) {
  out.line(fmt::format("std::fill_n({}, {}, {});", address(context, step.to), elements(context, step.to),
                       literal(step.value, context.program.buffer(step.to.buffer).type)));
}

}  // namespace mesh
