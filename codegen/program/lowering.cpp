#include "codegen/program/lowering.h"

#include <algorithm>

#include "codegen/graph/op.h"
#include "codegen/program/extent.h"

namespace mesh {

std::string unique_name(const Program& program, std::string wish) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(program.buffers.begin(), program.buffers.end(), [&](const Buffer& b) { return b.name == name; });
  };
  if (!taken(wish)) return wish;
  int number = 2;
  while (taken(wish + "_" + std::to_string(number))) ++number;
  return wish + "_" + std::to_string(number);
}

std::vector<LocalDim> ordered(const std::vector<LocalDim>& dims, const std::vector<DimId>& order) {
  std::vector<LocalDim> result;
  for (DimId dim : order)
    for (const LocalDim& local : dims)
      if (local.dim == dim) result.push_back(local);
  return result;
}

Lowering::Lowering(Program& program, const ShardedGraph& sharded, std::vector<BufferId> stored, uint32_t first_step,
                   std::vector<std::vector<DimId>> order)
    : program_(program),
      sharded_(sharded),
      graph_(sharded.graph),
      stored_(std::move(stored)),
      first_step_(first_step),
      order_(std::move(order)),
      memory_(graph_.values.size()),
      target_(graph_.values.size()),
      needs_memory_(graph_.values.size()),
      readers_(graph_.values.size()),
      slices_(graph_.values.size()) {
  find_readers();
}

namespace {

/// A running sum from the beginning takes its operand element by element.
bool is_forward(const Op& op) {
  const auto* sum = std::get_if<CumulativeOp>(&op);
  return sum && !sum->reverse;
}

}  // namespace

void Lowering::find_readers() {
  const auto need = [&](ValueId value) { needs_memory_[value.index] = true; };
  for (const Body& body : graph_.bodies) {
    for (NodeId id : body.nodes) {
      const Node& node = graph_.node(id);
      for (ValueId input : node.inputs) ++readers_[input.index];
      const bool in_nests = std::holds_alternative<MapOp>(node.op) || std::holds_alternative<BroadcastOp>(node.op) ||
                            std::holds_alternative<ReduceOp>(node.op) || std::holds_alternative<ArgReduceOp>(node.op) ||
                            std::holds_alternative<RandomOp>(node.op) || std::holds_alternative<RenameOp>(node.op) ||
                            std::holds_alternative<ReshardOp>(node.op) || std::holds_alternative<ConcatOp>(node.op) ||
                            is_forward(node.op);
      const auto* reshard = std::get_if<ReshardOp>(&node.op);
      const bool slices = reshard && sharded_.steps[reshard->step].kind == CollectiveKind::slice;
      const bool moves = reshard && !slices && sharded_.steps[reshard->step].kind != CollectiveKind::permute;
      if (slices) ++slices_[node.inputs[0].index];
      const bool sliced_twice = std::holds_alternative<SliceOp>(node.op) &&
                                std::holds_alternative<SliceOp>(graph_.node(graph_.value(node.inputs[0]).producer).op);
      if ((!in_nests && !sliced_twice) || (moves && !constant(node.results[0])))
        for (ValueId input : node.inputs) need(input);
      if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
        for (const LoopOp::Carry& carry : loop->carries) need(carry.leaving), ++readers_[carry.leaving.index];
        for (const LoopOp::Collect& collect : loop->collects) need(collect.turn), ++readers_[collect.turn.index];
      }
    }
  }
  for (const Metric& metric : graph_.metrics) ++readers_[metric.value.index];
  for (const Wanted& wanted : graph_.wanted) ++readers_[wanted.value.index], need(wanted.value);
  for (const Output& output : graph_.outputs)
    if (output.value) ++readers_[output.value.index], need(output.value);
}

void Lowering::preset(ValueId value, Access access) { memory_[value.index] = std::move(access); }

std::optional<Access> Lowering::found(ValueId value) const {
  const std::optional<Access>& access = memory_[value.index];
  return access && access->turns.empty() && graph_.value(value).body == graph_.root() ? access : std::nullopt;
}

void Lowering::lower_root(const std::vector<bool>& wanted, std::vector<Step>& steps) {
  steps_ = &steps;
  for (NodeId id : graph_.body(graph_.root()).nodes)
    if (wanted[id.index]) lower_node(id);
  lower_updates();
}

void Lowering::lower_body(BodyId body) {
  for (NodeId id : graph_.body(body).nodes) lower_node(id);
}

void Lowering::lower_node(NodeId id) {
  const Node& node = graph_.node(id);
  if (node.results.size() == 1 && memory_[node.results[0].index]) return;
  node_ = &node;
  struct Visit {
    Lowering& to;
    const Node& node;
    void operator()(const ReadOp& op) const {
      to.memory_[node.results[0].index] = Access{to.stored_[op.stored.index], {}};
    }
    void formula() const { to.lower_formula(node.results[0]); }
    void operator()(const LiteralOp&) const { formula(); }
    void operator()(const PositionOp&) const { formula(); }
    void operator()(const StepOp&) const { formula(); }
    void operator()(const RateOp&) const { formula(); }
    void operator()(const RandomOp&) const { formula(); }
    void operator()(const BroadcastOp&) const { formula(); }
    void operator()(const MapOp&) const { to.lower_map(node); }
    void operator()(const ReduceOp&) const { to.lower_reduce(node); }
    void operator()(const ArgReduceOp&) const { to.lower_arg_reduce(node); }
    void operator()(const DotOp&) const { to.lower_dot(node); }
    void operator()(const RenameOp&) const { to.lower_rename(node); }
    void operator()(const SplitOp&) const { to.lower_split(node); }
    void operator()(const MergeOp&) const { to.lower_merge(node); }
    void operator()(const TakeOp&) const { to.lower_take(node); }
    void operator()(const TakeGradientOp&) const { to.lower_take_gradient(node); }
    void operator()(const SliceOp&) const { formula(); }
    void operator()(const PadOp&) const { formula(); }
    void operator()(const ShiftOp&) const { formula(); }
    void operator()(const ConcatOp&) const { to.lower_concat(node); }
    void operator()(const CumulativeOp&) const { to.lower_cumulative(node); }
    void operator()(const SortOp&) const { to.lower_sort(node); }
    void operator()(const PlaceOp&) const { to.lower_place(node); }
    void operator()(const AttentionOp&) const { to.lower_attention(node); }
    void operator()(const AttentionGradientOp&) const { to.lower_attention_gradient(node); }
    void operator()(const UpdateOp&) const { to.updates_.push_back(&node); }
    void operator()(const UntilOp&) const { to.done_ = to.in_memory(node.inputs[0]); }
    void operator()(const LoopOp&) const { to.lower_loop(node); }
    void operator()(const ReshardOp&) const { to.lower_reshard(node); }
    void composite(const char* name) const {
      internal_error(std::string(name) + " was not decomposed before lowering");
    }
    void operator()(const SoftmaxOp&) const { composite("softmax"); }
    void operator()(const LogSoftmaxOp&) const { composite("log_softmax"); }
    void operator()(const LogSumExpOp&) const { composite("logsumexp"); }
  };
  std::visit(Visit{*this, node}, node.op);
}

bool Lowering::could_be_formula(ValueId value) const {
  if (turn_.contains(value)) return true;
  const NodeId producer = graph_.value(value).producer;
  const Node& node = graph_.node(producer);
  if (std::holds_alternative<LoopOp>(node.op)) return false;
  if (constant(value)) return true;
  if (std::holds_alternative<LiteralOp>(node.op) || std::holds_alternative<PositionOp>(node.op) ||
      std::holds_alternative<StepOp>(node.op) || std::holds_alternative<RateOp>(node.op) ||
      std::holds_alternative<BroadcastOp>(node.op))
    return true;
  if (const auto* random = std::get_if<RandomOp>(&node.op))  // what is dear is made once
    return random->distribution == Distribution::uniform || readers_[value.index] == 1;
  if (const auto* reshard = std::get_if<ReshardOp>(&node.op))
    return sharded_.steps[reshard->step].kind == CollectiveKind::slice;
  if (std::holds_alternative<RenameOp>(node.op)) return is_formula(node.inputs[0]);
  if (std::holds_alternative<SliceOp>(node.op) || std::holds_alternative<PadOp>(node.op) ||
      std::holds_alternative<ShiftOp>(node.op))
    return true;
  if (const auto* map = std::get_if<MapOp>(&node.op)) {
    if (map->function == MapFunction::cast || map->function == MapFunction::copy) return true;
    if (readers_[value.index] > 0 && slices_[value.index] == readers_[value.index])
      return true;  // only parts are needed
    return info(map->function).cheap &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return is_formula(input); });
  }
  return false;
}

bool Lowering::is_formula(ValueId value) const {
  return !memory_[value.index] && !needs_memory_[value.index] && could_be_formula(value);
}

std::optional<double> Lowering::constant(ValueId value) const {
  if (memory_[value.index]) return {};
  const Node& node = graph_.node(graph_.value(value).producer);
  if (const auto* literal = std::get_if<LiteralOp>(&node.op)) return literal->value;
  if (std::holds_alternative<BroadcastOp>(node.op) || std::holds_alternative<RenameOp>(node.op))
    return constant(node.inputs[0]);
  if (sharded_.placement(value).has_margins()) return {};  // beyond the ends there may be another number
  if (std::holds_alternative<ReshardOp>(node.op)) {
    if (const auto whole = count(graph_.node(graph_.value(node.inputs[0]).producer))) return whole;
    return constant(node.inputs[0]);
  }
  if (const auto* map = std::get_if<MapOp>(&node.op); map && map->function == MapFunction::cast) {
    const std::optional<double> of = constant(node.inputs[0]);
    const Type to = graph_.type(value).element;
    // Only where the number survives: a cast to a narrower type is left to run time.
    return of && (to == Type::f64 || (to == Type::f32 && static_cast<double>(static_cast<float>(*of)) == *of))
               ? of
               : std::nullopt;
  }
  if (const auto* map = std::get_if<MapOp>(&node.op)) return folded(*map, node);
  if (sharded_.placement(value).is_partial()) return {};
  return count(node);
}

/// Arithmetic on known numbers, rounded as at run time.
std::optional<double> Lowering::folded(const MapOp& map, const Node& node) const {
  const Type type = graph_.type(node.results[0]).element;
  if (type != Type::f32 && type != Type::f64) return {};
  std::vector<double> of;
  for (ValueId input : node.inputs) {
    const std::optional<double> number = constant(input);
    if (!number) return {};
    of.push_back(*number);
  }
  const auto rounded = [&](double number) {
    return type == Type::f32 ? static_cast<double>(static_cast<float>(number)) : number;
  };
  for (double& number : of) number = rounded(number);
  switch (map.function) {  // exact operations of the hardware alone: one rounding, of f32 even by way of f64
    case MapFunction::add: return rounded(of[0] + of[1]);
    case MapFunction::subtract: return rounded(of[0] - of[1]);
    case MapFunction::multiply: return rounded(of[0] * of[1]);
    case MapFunction::divide: return rounded(of[0] / of[1]);
    case MapFunction::negate: return -of[0];
    default: return {};
  }
}

/// The sum of a broadcast literal, over all ranks.
std::optional<double> Lowering::count(const Node& node) const {
  const auto* reduce = std::get_if<ReduceOp>(&node.op);
  if (!reduce || reduce->reduce != Reduce::sum) return {};
  std::optional<double> of = constant(node.inputs[0]);
  if (!of) return {};
  for (DimId dim : reduce->dims) *of *= static_cast<double>(graph_.dim(dim).size);
  return of;
}

std::vector<LocalDim> Lowering::local_dims(ValueId value) const {
  const std::vector<DimId>& logical = graph_.type(value).dims;
  std::vector<LocalDim> dims;
  for (size_t i = 0; i < logical.size(); ++i) dims.push_back({logical[i], sharded_.placement(value).dims[i]});
  return ordered(dims, order_[value.index]);
}

BufferKind Lowering::kind_of(ValueId value) const {
  const std::string& name = graph_.value(value).name;
  if (name.starts_with("d_") && graph_.names.contains("grad(" + name.substr(2) + ")")) return BufferKind::gradient;
  switch (graph_.node(graph_.value(value).producer).part) {
    case Part::forward: return BufferKind::activation;
    case Part::weight_gradient: return BufferKind::gradient;
    case Part::input_gradient:
    case Part::update: return BufferKind::workspace;
  }
  return BufferKind::workspace;
}

BufferId Lowering::new_buffer(std::string name, std::string path, Type type, std::vector<LocalDim> dims,
                              BufferKind kind, Span span) {
  Buffer buffer{unique_name(program_, std::move(name)),
                std::move(path),
                type,
                std::move(dims),
                kind,
                Space::own,
                {},
                {},
                0,
                -1,
                span};
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

BufferId Lowering::view(const Access& access, std::vector<LocalDim> dims) {
  const Buffer& of = program_.buffer(access.buffer);
  std::vector<LocalDim> all(of.dims.begin(), of.dims.begin() + static_cast<std::ptrdiff_t>(access.turns.size()));
  all.insert(all.end(), dims.begin(), dims.end());
  const BufferId root = storage(program_, access.buffer);
  if (program_.buffer(root).dims == all) return root;
  for (uint32_t i = 0; i < program_.buffers.size(); ++i)
    if (program_.buffers[i].view_of == root && program_.buffers[i].dims == all) return {i};
  Buffer buffer = program_.buffer(root);
  buffer.name = unique_name(program_, buffer.name);
  buffer.dims = std::move(all);
  buffer.view_of = root;
  program_.buffers.push_back(std::move(buffer));
  return {static_cast<uint32_t>(program_.buffers.size() - 1)};
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
  if (std::holds_alternative<RenameOp>(producer.op) || std::holds_alternative<SplitOp>(producer.op) ||
      std::holds_alternative<MergeOp>(producer.op))
    return false;
  if (std::holds_alternative<ReshardOp>(producer.op) && memory_[producer.inputs[0].index] == memory_[value.index])
    return is_alone(producer.inputs[0]);
  return true;
}

Step& Lowering::emit(StepKind what) {
  Step step{std::move(what), Part::forward, {}, {}, {}};
  if (node_) {
    step.part = node_->part;
    if (node_->span.known()) step.spans.push_back(node_->span);
    step.scope = node_->scope;
  }
  steps_->push_back(std::move(step));
  return steps_->back();
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
  const MapFunction join = reduce == Reduce::sum   ? MapFunction::add
                           : reduce == Reduce::max ? MapFunction::maximum
                                                   : MapFunction::minimum;
  Pass pass;
  pass.inner = program_.buffer(to).dims;
  const int so_far = load(pass, Access{to, {}}, {});
  const int term = convert(pass, scalar(pass, value, {}), program_.buffer(to).type);
  pass.stores.push_back({apply(pass, join, {so_far, term}, program_.buffer(to).type), Access{to, {}}});
  emit(Nest{{}, {std::move(pass)}, {}});
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
