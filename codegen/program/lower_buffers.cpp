// lower_buffers.cpp: where values lie in memory, under which dims and in which order.
#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/value_names.h"
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"
#include "codegen/program/view_of.h"

namespace mesh {

std::vector<LocalDim> ordered(const std::vector<LocalDim>& dims, const std::vector<DimId>& order) {
  std::vector<LocalDim> result;
  for (DimId dim : order)
    for (const LocalDim& local : dims)
      if (local.dim == dim) result.push_back(local);
  return result;
}

std::vector<LocalDim> Lowering::local_dims(ValueId value) const {
  const std::vector<DimId>& logical = graph_.type(value).dims;
  std::vector<LocalDim> dims;
  const Placement held = sharded_.placement(value).without_circulation();
  for (size_t i = 0; i < logical.size(); ++i) dims.push_back({logical[i], held.dims[i]});
  return ordered(dims, order_[value.index]);
}

BufferKind Lowering::kind_of(ValueId value) const {
  const std::string& name = graph_.value(value).name;
  if (name.starts_with("d_") && graph_.names.contains(gradient_name(name.substr(2)))) return BufferKind::gradient;
  switch (graph_.node(graph_.value(value).producer).part) {
    case Part::forward: return BufferKind::activation;
    case Part::weight_gradient: return BufferKind::gradient;
    case Part::recompute:
    case Part::input_gradient:
    case Part::update: return BufferKind::workspace;
  }
  return BufferKind::workspace;
}

BufferId Lowering::new_buffer(const std::string& name, std::string path, Type type, std::vector<LocalDim> dims,
                              BufferKind kind, Span span) {
  Buffer buffer{names_->unique(name), std::move(path), type, std::move(dims), kind, Space::own, {}, {}, 0, -1, span};
  buffer.elements = largest_elements(program_, buffer);
  program_.buffers.push_back(std::move(buffer));
  return {static_cast<uint32_t>(program_.buffers.size() - 1)};
}

BufferId Lowering::new_buffer(ValueId value, BufferKind kind) {
  const Value& of = graph_.value(value);
  const Node& producer = graph_.node(of.producer);
  return new_buffer(short_name(value), of.name.empty() ? producer.scope : of.name, of.type.element, local_dims(value),
                    kind, producer.span);
}

Access Lowering::allocate(ValueId value) {
  Access access = target_[value.index] ? *target_[value.index] : Access{new_buffer(value, kind_of(value)), {}};
  memory_[value.index] = access;
  return access;
}

BufferId Lowering::view(const Access& access, const std::vector<LocalDim>& dims) {
  return view_of(program_, *names_, access, dims);
}

/// Where calls find a value, in its own element type: totals over batches are kept in a wider one.
Access Lowering::in_memory(ValueId value) {
  std::optional<Access>& held = memory_[value.index];
  if (!held) internal_error("value " + graph_.value(value).name + " is not in memory");
  if (program_.buffer(held->buffer).type != graph_.type(value).element) {
    const Access narrow{new_buffer(value, kind_of(value)), {}};
    copy(*held, narrow);
    held = narrow;
  }
  return *held;
}

/// Whether the value has a buffer to itself and one reader: then that reader may take the buffer over.
bool Lowering::is_alone(ValueId value) const {
  if (readers_[value.index] != 1 || !memory_[value.index] || target_[value.index]) return false;
  const Access& access = *memory_[value.index];
  const Buffer& buffer = program_.buffer(access.buffer);
  if (!access.turns.empty() || buffer.stored || buffer.view_of || buffer.kind == BufferKind::result) return false;
  // Carries share a buffer with what they begin from, renames with their operands.
  const Node& producer = graph_.node(graph_.value(value).producer);
  if (const auto* loop = std::get_if<LoopOp>(&producer.op))
    return std::any_of(loop->collects.begin(), loop->collects.end(),
                       [&](const LoopOp::Collect& collect) { return collect.stacked == value; });
  if (is_view(producer.op)) return false;
  if (!producer.inputs.empty() && memory_[producer.inputs[0].index] == memory_[value.index])
    return is_alone(producer.inputs[0]);
  return true;
}

/// Element by element: as a nest where both lie in the same order (so that it may merge with others).
void Lowering::copy(const Access& from, const Access& to) {
  if (from == to) return;
  const auto source = dims_of(program_, from), target = dims_of(program_, to);
  const bool same_order = std::equal(source.begin(), source.end(), target.begin(), target.end(),
                                     [](const LocalDim& a, const LocalDim& b) { return a.dim == b.dim; });
  if (!same_order) {
    emit(CopyStep{from, to});
    return;
  }
  Pass pass;
  pass.inner.assign(target.begin(), target.end());
  const int loaded = convert(pass, load(pass, from, {}), program_.buffer(to.buffer).type);
  pass.stores.push_back({loaded, to});
  emit(Nest{{}, {std::move(pass)}, {}});
}

bool Lowering::lies_in(const Access& access, const std::vector<DimId>& order) const {
  return std::ranges::equal(dims_of(program_, access), order, {}, &LocalDim::dim);
}

/// A new buffer for the same value with its dims in another order in memory.
Access Lowering::turned(const Access& like, const std::vector<DimId>& order) {
  const Buffer of = program_.buffer(like.buffer);
  const auto dims = dims_of(program_, like);
  return {new_buffer(of.name + "_turned", of.path, of.type, ordered({dims.begin(), dims.end()}, order),
                     BufferKind::workspace, of.span),
          {}};
}

/// The same value with its dims in another order in memory.
Access Lowering::reordered(const Access& from, const std::vector<DimId>& order) {
  Access to = turned(from, order);
  emit(CopyStep{from, to});
  return to;
}

/// `from`, copied if its dims lie in another order in memory.
Access Lowering::in_order(const Access& from, const std::vector<DimId>& order) {
  return lies_in(from, order) ? from : reordered(from, order);
}

Access Lowering::in_order(const Access& from, const std::vector<DimId>& order, const std::vector<DimId>& beside) {
  const auto dims = dims_of(program_, from);
  std::vector<LocalDim> wanted{dims.begin(), dims.end()};
  for (LocalDim& local : wanted)
    if (!has(beside, local.dim)) local = without_margin(local);
  if (std::ranges::equal(wanted, dims)) return in_order(from, order);
  const Buffer of = program_.buffer(from.buffer);
  const Access to{
      new_buffer(of.name + "_own", of.path, of.type, ordered(wanted, order), BufferKind::workspace, of.span), {}};
  emit(CopyStep{from, to});
  return to;
}

}  // namespace mesh
