#include "codegen/emit/outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "codegen/emit/emit_nest.h"
#include "codegen/emit/nest_loops.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

constexpr int worth_a_function = 2;  // nests of one kind

bool asks_where_it_is(const Nest& nest) {
  for (const Pass& pass : nest.passes)
    for (const Scalar& scalar : pass.scalars)
      if (std::holds_alternative<Scalar::Index>(scalar.what) || std::holds_alternative<Scalar::Turn>(scalar.what) ||
          std::holds_alternative<Scalar::Random>(scalar.what))
        return true;
  return false;
}

}  // namespace

Outline::Outline(EmitContext& context, FunctionTable& table) : context_(context), table_(table) {
  for (const Routine& routine : context.program.routines) {
    // What stands in a loop works on slices, but for updates, of which each turn has a slot.
    for (const Step& step : routine.steps)
      if (const auto* nest = std::get_if<Nest>(&step.what)) count(*nest, 1);
    for_each_step(routine.steps, [&](const Step& step) {
      const auto* loop = std::get_if<ForStep>(&step.what);
      for (size_t i = 0; loop && i < loop->body.size(); ++i)
        if (const auto* nest = std::get_if<Nest>(&loop->body[i].what); nest && loop->body[i].part == Part::update)
          count(*nest, 1);
      const auto* pass = std::get_if<OnePassStep>(&step.what);
      for (size_t i = 0; pass && i < pass->body.size(); ++i)
        if (const auto* nest = std::get_if<Nest>(&pass->body[i].what)) count(*nest, worth_a_function);
    });
  }
}

void Outline::count(const Nest& nest, int uses) {
  const std::optional<Shape> shape = shape_of(nest);
  if (!shape) return;
  Function& function = functions_[shape->key];
  function.uses += uses;
  if (function.widest == nullptr || shape->dims.size() > shape_of(*function.widest)->dims.size())
    function.widest = &nest;
}

std::optional<Outline::Shape> Outline::shape_of(const Nest& nest) const {
  if (asks_where_it_is(nest) || nest.passes.empty() || !nest.bounds.empty()) return std::nullopt;
  const bool one_walk = nest.passes.size() == 1 && nest.passes.front().reductions.empty();
  const bool reduces = !one_walk && nest.outer.empty() && !nest.passes.front().inner.empty();
  if (!one_walk && !reduces) return std::nullopt;
  Shape shape;
  shape.reduces = reduces;
  shape.dims = nest.outer;
  shape.dims.insert(shape.dims.end(), nest.passes.front().inner.begin(), nest.passes.front().inner.end());
  if (shape.dims.empty()) return std::nullopt;
  const NestLoops loops(context_, nest);
  std::set<BufferId> stored;
  for (const Pass& pass : nest.passes) {
    for (const Pass::Store& store : pass.stores) stored.insert(storage(context_.program, store.to.buffer));
    if (!pass.accumulates.empty()) return std::nullopt;
  }

  bool fits = true;
  const auto reference = [&](const Access& access) {
    const Buffer& buffer = context_.program.buffer(access.buffer);
    const BufferId held = storage(context_.program, access.buffer);
    const std::string type = meshrt::name_of(buffer.type);
    if (buffer.dims.empty() && !stored.contains(held)) return fmt::format("{}", held.index);  // the same for all
    const std::span<const LocalDim> dims = dims_of(context_.program, access);
    const bool slice = !dims.empty() && !std::ranges::equal(dims, shape.dims);
    if (!access.maps.empty() || (dims.empty() && !buffer.dims.empty())) fits = false;
    if (slice && (!one_walk || !access.turns.empty() || stored.contains(held) || !add_slice(shape, buffer)))
      fits = false;
    const auto found = std::ranges::find(shape.tensors, held);
    const auto at = found - shape.tensors.begin();
    if (found == shape.tensors.end()) {
      shape.tensors.push_back(held);
      shape.slots.push_back(access.turns.empty() ? Access{held, {}} : access);
      shape.written.push_back(stored.contains(held));
      shape.sliced.push_back(slice);
    } else if (shape.slots[static_cast<size_t>(at)].turns != access.turns) {
      fits = false;
    }
    return fmt::format("@{}{}{}{}", at, type,
                       buffer.dims.empty() ? ""
                       : slice             ? "[/]"
                                           : "[]",
                       loops.writes(access.buffer) ? "!" : "");
  };
  for (const Pass& pass : nest.passes) {
    if (&pass != &nest.passes.front() && !pass.inner.empty() && pass.inner != shape.dims) return std::nullopt;
    shape.key += fmt::format("pass {};", pass.inner.empty() ? "once" : "all");
    for (const Scalar& scalar : pass.scalars) {
      shape.key += std::to_string(scalar.what.index()) + meshrt::name_of(scalar.type);
      if (const auto* load = std::get_if<Scalar::Load>(&scalar.what)) shape.key += reference(load->access);
      if (const auto* number = std::get_if<Scalar::Literal>(&scalar.what)) {
        shape.key += fmt::format("{}", number->value);
        for (const DimId dim : number->counts) shape.key += fmt::format(" {}", dim.index);
      }
      if (const auto* rate = std::get_if<Scalar::Rate>(&scalar.what)) shape.key += to_string(rate->rate);
      if (const auto* row = std::get_if<Scalar::Row>(&scalar.what)) shape.key += std::to_string(row->row);
      if (const auto* apply = std::get_if<Scalar::Apply>(&scalar.what)) {
        shape.key += info(apply->function).name;
        for (const int operand : apply->operands) shape.key += fmt::format(" {}", operand);
      }
      shape.key += ";";
    }
    for (const Pass::Reduction& one : pass.reductions)
      shape.key += fmt::format("{}{} {} {};", meshrt::name_of(one.reduce), one.arg ? "arg" : "", one.scalar, one.row);
    for (const Pass::Store& one : pass.stores) shape.key += fmt::format("{} to {};", one.scalar, reference(one.to));
  }
  if (!fits || shape.tensors.empty()) return std::nullopt;
  return shape;
}

/// Whether the buffer has the shape's dims, of one of them more than the shape; the same one for all such tensors.
bool Outline::add_slice(Shape& shape, const Buffer& buffer) const {
  if (buffer.dims.size() != shape.dims.size()) return false;
  for (size_t k = 0; k < buffer.dims.size(); ++k) {
    if (buffer.dims[k] == shape.dims[k]) continue;
    if (buffer.dims[k].dim != shape.dims[k].dim || (shape.slice >= 0 && shape.slice != static_cast<int>(k)))
      return false;
    shape.slice = static_cast<int>(k);
  }
  return true;
}

/// What a call hands over: a slice from where it begins, of a stretch from where that begins.
std::string Outline::argument(const Shape& shape, size_t tensor, const Stretch* stretch) const {
  const BufferId id = shape.tensors[tensor];
  if (stretch && stretch->sum == std::optional(id)) return stretch->name + ".sum";
  if (stretch && id == stretch->next) return stretch->name + ".next";
  const std::vector<LocalDim>& held = context_.program.buffer(id).dims;
  if (held.empty()) return value(context_, id);
  std::string text = address(context_, shape.slots[tensor]);
  const std::string further = stretch ? " + " + stretch->name + (shape.sliced[tensor] ? ".whole" : ".part") : "";
  if (!shape.sliced[tensor]) return text + further;
  const auto at = static_cast<size_t>(shape.slice);
  std::string begin = context_.names.begin(shape.dims[at]);
  if (const std::string of = context_.names.begin(held[at]); of != "0") begin = "(" + begin + " - " + of + ")";
  const std::string inner = context_.names.product(std::span(shape.dims).subspan(at + 1));
  return text + " + " + begin + (inner == "1" ? "" : " * " + inner) + further;
}

std::string Outline::parameter_name(BufferId id) const {
  const Buffer& buffer = context_.program.buffer(id);
  switch (buffer.kind) {
    case BufferKind::parameter: return "parameter";
    case BufferKind::gradient: return "gradient";
    case BufferKind::optimizer: return identifier(buffer.path.substr(buffer.path.rfind('.') + 1));
    default: break;
  }
  if (buffer.name.starts_with("d_")) return "gradient";
  if (buffer.name.starts_with("next_")) return "next";
  return buffer.dims.empty() ? "result" : "values";
}

/// "apply_adamw"; the optimizer of a model may decay some parameters and others not.
std::string Outline::update_name(StoredId parameter) const {
  const std::optional<Objective>& objective = context_.graph().objective;
  if (!objective) return "apply_update";
  const auto decays = [](const std::map<std::string, double>& values) {
    const auto found = values.find("weight_decay");
    return found != values.end() && found->second != 0;
  };
  for (const Objective::Parameter& one : objective->parameters)
    if (one.stored == parameter && decays(objective->values) && one.values.contains("weight_decay") &&
        !decays(one.values))
      return "apply_" + objective->optimizer + "_without_decay";
  return "apply_" + objective->optimizer;
}

std::string Outline::function_name(const Nest& nest, const Shape& shape) const {
  for (size_t i = 0; i < shape.tensors.size(); ++i) {
    const Buffer& buffer = context_.program.buffer(shape.tensors[i]);
    if (!shape.written[i] || !buffer.stored) continue;
    const StoredId parameter = context_.graph().stored[buffer.stored.index].parameter;
    if (buffer.kind == BufferKind::parameter || parameter) return update_name(parameter ? parameter : buffer.stored);
  }
  if (!shape.reduces) return "compute_values";
  const Pass& first = nest.passes.front();
  const Scalar& reduced = first.scalars[static_cast<size_t>(first.reductions.front().scalar)];
  const auto* apply = std::get_if<Scalar::Apply>(&reduced.what);
  const bool squares = apply != nullptr && apply->function == MapFunction::square;
  return std::string(meshrt::name_of(first.reductions.front().reduce)) + (squares ? "_of_squares" : "_of_values");
}

void Outline::write(const Nest& nest, const Shape& shape, Function& function) {
  function.name = context_.names.reserve(function_name(nest, shape));
  // What is updated first, then by what.
  const std::vector<std::string> ranks = {"next", "parameter", "gradient"};
  function.order.resize(shape.tensors.size());
  std::iota(function.order.begin(), function.order.end(), size_t{0});
  std::ranges::stable_sort(function.order, {}, [&](size_t i) {
    return std::ranges::find(ranks, parameter_name(shape.tensors[i])) - ranks.begin();
  });
  // One number that is written is what the function returns.
  const auto is_number = [&](size_t i) { return context_.program.buffer(shape.tensors[i]).dims.empty(); };
  const auto written = std::ranges::count(shape.written, true);
  std::string parameters, type = "void";
  for (size_t i = 0; i < shape.tensors.size() && written == 1; ++i) {
    if (!shape.written[i] || !is_number(i)) continue;
    std::erase(function.order, i);
    function.result = i;
    type = cpp_type(context_.program.buffer(shape.tensors[i]).type);
    context_.returned = shape.tensors[i];
  }
  std::map<std::string, int> taken;
  for (const size_t i : function.order) {
    std::string parameter = parameter_name(shape.tensors[i]);
    if (const int before = taken[parameter]++; before > 0) parameter += fmt::format("_{}", before + 1);
    if (context_.names.taken(parameter)) parameter += "_";
    context_.names.substitute(shape.tensors[i], parameter);
    parameters +=
        fmt::format("{}{}{} {}, ", shape.written[i] ? "" : "const ",
                    cpp_type(context_.program.buffer(shape.tensors[i]).type), is_number(i) ? "&" : "*", parameter);
  }
  function.rows = shape.rows();
  parameters += function.rows ? "int64_t rows, int64_t cols" : shape.reduces ? "int64_t cols" : "int64_t count";
  for (const size_t i : function.order) {  // how far apart the rows of a slice are
    if (!shape.sliced[i]) continue;
    const std::string distance = context_.names.buffer(shape.tensors[i]) + "_row";
    context_.outlined_rows[shape.tensors[i]] = distance;
    parameters += ", int64_t " + distance;
  }
  context_.outlined_extents = function.rows   ? std::vector<std::string>{"rows", "cols"}
                              : shape.reduces ? std::vector<std::string>{"cols"}
                                              : std::vector<std::string>{"count"};
  CppWriter body(2);
  Scope scope(context_.names);
  emit_nest(context_, body, scope, nest);
  context_.outlined_extents.clear();
  context_.outlined_rows.clear();
  context_.returned = {};
  for (const BufferId id : shape.tensors) context_.names.substitute(id, "");
  table_.add({"", fmt::format("{} {}({})", type, function.name, parameters), body.text()});
}

std::optional<std::string> Outline::call(const Nest& nest) {
  const std::optional<Shape> shape = shape_of(nest);
  if (!shape) return std::nullopt;
  Function& function = functions_[shape->key];
  if (function.uses < worth_a_function) return std::nullopt;
  // A nest in a loop may have rows where those that the function is written of have columns alone.
  if (shape->rows() && !shape_of(*function.widest)->rows()) return std::nullopt;
  return call(*shape, function, nullptr);
}

std::string Outline::call(const Nest& nest, const Stretch& stretch) {
  const std::optional<Shape> shape = shape_of(nest);
  if (!shape) internal_error("an update in stretches is not elementwise");
  return call(*shape, functions_.at(shape->key), &stretch);
}

std::string Outline::call(const Shape& shape, Function& function, const Stretch* stretch) {
  if (function.name.empty()) write(*function.widest, *shape_of(*function.widest), function);
  std::string arguments;
  for (const size_t i : function.order) arguments += argument(shape, i, stretch) + ", ";
  const std::span<const LocalDim> dims(shape.dims);
  const size_t column = shape.first_column();
  std::string rows = context_.names.product(dims.first(column)), cols = context_.names.product(dims.subspan(column));
  if (stretch) rows = stretch->name + ".rows", cols = stretch->name + ".cols";
  if (function.rows) arguments += rows + ", ";
  else if (stretch) cols = rows + " * " + cols;
  arguments += cols;
  for (const size_t i : function.order)
    if (shape.sliced[i])
      arguments +=
          ", " + context_.names.product(std::span(context_.program.buffer(shape.tensors[i]).dims).subspan(column));
  const std::string result = function.result ? value(context_, shape.tensors[*function.result]) + " = " : "";
  return fmt::format("{}{}({});", result, function.name, arguments);
}

}  // namespace mesh
