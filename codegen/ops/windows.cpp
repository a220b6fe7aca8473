#include "codegen/ops/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/ops/definitions.h"
#include "codegen/program/extent.h"

namespace mesh {

WindowShape WindowedDim::shape(const Graph& graph) const {
  return {graph.dim(wide).size, graph.dim(narrow).size, size, stride, dilation, before};
}

void add_windows(std::vector<DimId>& dims, std::vector<int64_t>& numbers, const std::vector<WindowedDim>& windows) {
  numbers.push_back(static_cast<int64_t>(windows.size()));
  for (const WindowedDim& window : windows) {
    dims.insert(dims.end(), {window.wide, window.narrow, window.kernel});
    numbers.insert(numbers.end(), {window.size, window.stride, window.dilation, window.before});
  }
}

std::vector<WindowedDim> windows_of(const std::vector<DimId>& dims, const std::vector<int64_t>& numbers, size_t first) {
  std::vector<WindowedDim> windows;
  for (size_t i = 0; i < static_cast<size_t>(numbers[first]); ++i) {
    const DimId* of = &dims[dims_of_window * i];
    const int64_t* number = &numbers[first + 1 + 4 * i];
    windows.push_back({of[0], of[1], of[2], number[0], number[1], number[2], number[3]});
  }
  return windows;
}

std::string windows_text(const Graph& graph, const std::vector<WindowedDim>& windows, bool to_wide) {
  std::string text;
  for (const WindowedDim& window : windows) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", graph.dim(to_wide ? window.narrow : window.wide).name,
                        window.kernel ? graph.dim(window.kernel).name : std::to_string(window.size));
    if (window.stride != 1) text += fmt::format(" stride {}", window.stride);
    if (window.dilation != 1) text += fmt::format(" dilate {}", window.dilation);
    if (window.before != 0) text += fmt::format(" pad {}", window.before);
    if (window.narrow != window.wide) text += " as " + graph.dim(to_wide ? window.wide : window.narrow).name;
  }
  return text;
}

namespace {

Dims each(const std::vector<WindowedDim>& windows, DimId WindowedDim::*side) {
  Dims dims;
  for (const WindowedDim& window : windows) dims.push_back(window.*side);
  return dims;
}

Dims exchanged(Dims dims, const std::vector<WindowedDim>& windows, DimId WindowedDim::*from, DimId WindowedDim::*to) {
  for (DimId& dim : dims)
    if (const auto window = std::ranges::find(windows, dim, from); window != windows.end()) dim = (*window).*to;
  return dims;
}

}  // namespace

bool is_wide(const std::vector<WindowedDim>& windows, DimId dim) { return has(wide_dims(windows), dim); }
bool is_narrow(const std::vector<WindowedDim>& windows, DimId dim) { return has(narrow_dims(windows), dim); }
Dims wide_dims(const std::vector<WindowedDim>& windows) { return each(windows, &WindowedDim::wide); }
Dims narrow_dims(const std::vector<WindowedDim>& windows) { return each(windows, &WindowedDim::narrow); }
Dims kernel_dims(const std::vector<WindowedDim>& windows) { return each(windows, &WindowedDim::kernel); }
Dims other_dims(const Dims& dims, const Dims& these) {
  return filtered(dims, [&](DimId dim) { return !has(these, dim); });
}
Dims narrowed(Dims dims, const std::vector<WindowedDim>& windows) {
  return exchanged(std::move(dims), windows, &WindowedDim::wide, &WindowedDim::narrow);
}
Dims widened(Dims dims, const std::vector<WindowedDim>& windows) {
  return exchanged(std::move(dims), windows, &WindowedDim::narrow, &WindowedDim::wide);
}

std::vector<Factor> window_factors(const Graph& graph, const Node& node, const std::vector<WindowedDim>& windows,
                                   const std::vector<WindowSide>& operands, const std::vector<WindowSide>& results,
                                   const std::vector<size_t>& beside) {
  const auto dim_of = [](const WindowedDim& window, WindowSide side) {
    return side == WindowSide::wide ? window.wide : side == WindowSide::narrow ? window.narrow : DimId{};
  };
  // By name, as if the dims of windows were not there.
  std::vector<Factor> factors;
  for (const Factor& factor : factors_by_name(graph, node)) {
    Factor rest = factor;
    const auto leave = [&](std::vector<DimId>& dims, const std::vector<WindowSide>& sides) {
      for (size_t i = 0; i < dims.size(); ++i)
        for (const WindowedDim& window : windows)
          if (dims[i] && dims[i] == dim_of(window, sides[i])) dims[i] = {};
    };
    leave(rest.operands, operands);
    leave(rest.results, results);
    const auto is_set = [](DimId dim) { return bool(dim); };
    if (std::ranges::none_of(rest.operands, is_set) && std::ranges::none_of(rest.results, is_set)) continue;
    for (const std::vector<DimId>* dims : {&rest.operands, &rest.results})
      for (const DimId dim : *dims)
        if (dim && has(kernel_dims(windows), dim)) rest.splittable = false;
    factors.push_back(std::move(rest));
  }
  for (const WindowedDim& window : windows) {
    Factor factor{{}, {}, std::max(graph.dim(window.wide).size, graph.dim(window.narrow).size)};
    for (const WindowSide side : operands) factor.operands.push_back(dim_of(window, side));
    for (const WindowSide side : results) factor.results.push_back(dim_of(window, side));
    factor.in_order = true;
    factor.window = WindowReach{window.shape(graph), operands[beside.front()] == WindowSide::wide, beside};
    factors.push_back(std::move(factor));
  }
  return factors;
}

// ---- on a rank

namespace {

const LocalDim& local_of(const Program& program, const Access& access, DimId dim) {
  for (const LocalDim& local : dims_of(program, access))
    if (local.dim == dim) return local;
  internal_error("windows move along " + program.sharded.graph.dim(dim).name + ", which a buffer lacks");
}

std::string held_cpp(EmitContext& context, const LocalDim& local) {
  std::string begin = context.names.begin(without_margin(local));
  if (const int64_t before = local.placement.margin.before) {
    begin = begin == "0" ? fmt::format("-{}", before) : fmt::format("{} - {}", begin, before);
  }
  return fmt::format("{{{}, {}, {}}}", context.names.size(local.dim), begin, context.names.extent(local));
}

meshrt::Held bound_held(const Binding& binding, const LocalDim& local) {
  const Range held = binding.range(local);
  return {binding.program.sharded.graph.dim(local.dim).size, held.begin, held.size()};
}

}  // namespace

void verify_windows(const Program& program, const DefinedStep& step, const WindowAccess& of, bool makes_wide,
                    const std::function<void(const std::string&)>& say) {
  const Graph& graph = program.sharded.graph;
  const Dims moving = makes_wide ? narrow_dims(of.windows) : wide_dims(of.windows);
  for (const Access& read : step.reads)
    for (const LocalDim& local : dims_of(program, read))
      if (local.placement.margin && !has(moving, local.dim))
        say(fmt::format("reads {} with margins, along which no windows move", graph.dim(local.dim).name));
  for (const WindowedDim& window : of.windows) {
    const LocalDim &wide = local_of(program, of.wide, window.wide),
                   &narrow = local_of(program, of.narrow, window.narrow);
    const LocalDim &made = makes_wide ? wide : narrow, &met = makes_wide ? narrow : wide;
    if (made.placement.margin) say(fmt::format("makes {} with margins", graph.dim(made.dim).name));
    const int64_t parts = program.sharded.layout.mesh.size(made.placement.axes);
    const Margin needed = WindowReach{window.shape(graph), !makes_wide, {}}.margin(parts);
    const Margin& has = met.placement.margin;
    if (made.placement.axes != met.placement.axes || made.placement.deal || met.placement.deal)
      say(fmt::format("has {} and {} in other parts", graph.dim(made.dim).name, graph.dim(met.dim).name));
    else if (has.before < needed.before || has.after < needed.after)
      say(fmt::format("needs {} of {} before each part and {} after, and has {} and {}", needed.before,
                      graph.dim(met.dim).name, needed.after, has.before, has.after));
  }
}

std::string windows_cpp(EmitContext& context, const WindowAccess& of) {
  std::string text;
  for (size_t i = of.windows.size(); i < meshrt::WindowDims{}.size(); ++i) text += "{}, ";
  for (const WindowedDim& window : of.windows) {
    text +=
        fmt::format("{{{}, {}, {}, {}, {}, {}}}, ", held_cpp(context, local_of(context.program, of.wide, window.wide)),
                    held_cpp(context, local_of(context.program, of.narrow, window.narrow)),
                    window.kernel ? context.names.size(window.kernel) : std::to_string(window.size), window.stride,
                    window.dilation, window.before);
  }
  text.resize(text.size() - 2);
  return text;
}

meshrt::WindowDims bound_windows(const Binding& binding, const WindowAccess& of) {
  meshrt::WindowDims dims;
  const size_t first = dims.size() - of.windows.size();
  for (size_t i = 0; i < of.windows.size(); ++i) {
    const WindowedDim& window = of.windows[i];
    dims[first + i] = {bound_held(binding, local_of(binding.program, of.wide, window.wide)),
                       bound_held(binding, local_of(binding.program, of.narrow, window.narrow)),
                       window.size,
                       window.stride,
                       window.dilation,
                       window.before};
  }
  return dims;
}

std::string extent_of(EmitContext& context, const Access& access, const std::function<bool(DimId)>& of) {
  std::vector<LocalDim> found;
  for (const LocalDim& local : dims_of(context.program, access))
    if (of(local.dim)) found.push_back(local);
  return context.names.product(found);
}

int64_t extent_of(const Binding& binding, const Access& access, const std::function<bool(DimId)>& of) {
  int64_t extent = 1;
  for (const LocalDim& local : dims_of(binding.program, access))
    if (of(local.dim)) extent *= binding.extent(local);
  return extent;
}

}  // namespace mesh
