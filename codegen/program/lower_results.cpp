// lower_results.cpp: what a routine gives to those who call it: whole buffers, and sums and means over batches.
#include "codegen/program/lowering.h"

namespace mesh {

BufferId Lowering::own_buffer(ValueId value, const std::string& name, Type element) {
  node_ = &graph_.node(graph_.value(value).producer);
  if (memory_[value.index] && graph_.type(value).element == element) {
    const Access& access = *memory_[value.index];
    Buffer& buffer = program_.buffer(access.buffer);
    if (access.turns.empty() && !buffer.stored && !buffer.view_of && buffer.dims == local_dims(value)) {
      buffer.kind = BufferKind::result;
      return access.buffer;
    }
  }
  const BufferId to =
      new_buffer(name, graph_.value(value).name, element, local_dims(value), BufferKind::result, node_->span);
  store(value, Access{to, {}});
  return to;
}

BufferId Lowering::output_buffer(ValueId value, const std::string& name) {
  const std::vector<DimId>& logical = graph_.type(value).dims;
  const BufferId lies = own_buffer(value, name, graph_.type(value).element);
  const Buffer of = program_.buffer(lies);
  const std::vector<LocalDim> dims = ordered(of.dims, logical);
  if (dims == of.dims) return lies;
  const BufferId to = new_buffer(name, of.path, of.type, dims, BufferKind::result, of.span);
  emit(CopyStep{Access{lies, {}}, Access{to, {}}});
  return to;
}

void Lowering::add_to(ValueId value, BufferId to, Reduce reduce) {
  node_ = &graph_.node(graph_.value(value).producer);
  at_ = where(value);  // as a sum that lies at a pipeline's last stage
  const MapFunction join = reduce == Reduce::sum   ? MapFunction::add
                           : reduce == Reduce::max ? MapFunction::maximum
                                                   : MapFunction::minimum;
  Pass pass;
  pass.inner = program_.buffer(to).dims;
  const int so_far = load(pass, Access{to, {}}, {});
  const int term = convert(pass, scalar(pass, value, {}), program_.buffer(to).type);
  pass.stores.push_back({apply(pass, join, {so_far, term}, program_.buffer(to).type), Access{to, {}}});
  emit(Nest{{}, {std::move(pass)}, {}});
  at_ = {};
}

BufferId Lowering::count_to(const std::string& name, Span span) {
  const BufferId to = new_buffer(name, name, Type::f64, {}, BufferKind::result, span);
  Pass pass;
  const int so_far = load(pass, Access{to, {}}, {});
  pass.scalars.push_back({Scalar::Literal{1}, Type::f64});
  const int more = apply(pass, MapFunction::add, {so_far, static_cast<int>(pass.scalars.size()) - 1}, Type::f64);
  pass.stores.push_back({more, Access{to, {}}});
  emit(Nest{{}, {std::move(pass)}, {}});
  return to;
}

BufferId Lowering::average(BufferId total, BufferId count, const std::string& name, Type type) {
  node_ = nullptr;
  const BufferId to = new_buffer(name, name, type, {}, BufferKind::result, program_.buffer(total).span);
  Pass pass;
  const int sum = load(pass, Access{total, {}}, {}), number = load(pass, Access{count, {}}, {});
  const int mean = apply(pass, MapFunction::divide, {sum, number}, Type::f64);
  pass.stores.push_back({convert(pass, mean, type), Access{to, {}}});
  emit(Nest{{}, {std::move(pass)}, {}});
  return to;
}

}  // namespace mesh
