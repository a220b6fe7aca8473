// lower_nest.cpp: everything elementwise and every reduction, a loop nest for each node. Merging them is fuse.cpp's
// task.
#include <algorithm>
#include <set>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/turn_terms.h"
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"

namespace mesh {

namespace {

int push(Pass& pass, Scalar scalar) {
  for (size_t i = 0; i < pass.scalars.size(); ++i) {  // equal loads, draws and literals are shared
    const Scalar& other = pass.scalars[i];
    if (other.type != scalar.type || other.what.index() != scalar.what.index()) continue;
    if (const auto* load = std::get_if<Scalar::Load>(&scalar.what))
      if (std::get<Scalar::Load>(other.what).access == load->access) return static_cast<int>(i);
    if (const auto* random = std::get_if<Scalar::Random>(&scalar.what))
      if (std::get<Scalar::Random>(other.what) == *random) return static_cast<int>(i);
    if (const auto* literal = std::get_if<Scalar::Literal>(&scalar.what))
      if (std::get<Scalar::Literal>(other.what).value == literal->value) return static_cast<int>(i);
  }
  pass.scalars.push_back(std::move(scalar));
  return static_cast<int>(pass.scalars.size() - 1);
}

}  // namespace

int Lowering::apply(Pass& pass, MapFunction function, std::vector<int> operands, Type type) {
  return push(pass, {Scalar::Apply{function, std::move(operands)}, type});
}

/// Of narrow types a nest has only what it loads, what it stores, what it chooses of these, and their casts to and from
/// what is computed in: so it does not matter to a number whether it goes through memory.
int Lowering::convert(Pass& pass, int scalar, Type type) {
  const auto type_of = [&](int of) { return pass.scalars[static_cast<size_t>(of)].type; };
  if (type_of(scalar) == type) return scalar;
  for (const Type between : {computed_in(type_of(scalar)), computed_in(type)})
    if (type_of(scalar) != between) scalar = apply(pass, MapFunction::cast, {scalar}, between);
  return type_of(scalar) == type ? scalar : apply(pass, MapFunction::cast, {scalar}, type);
}

int Lowering::load(Pass& pass, const Access& access, const Names& names) {
  Access named = access;
  const auto held = dims_of(program_, access);
  std::vector<LocalDim> dims(held.begin(), held.end());
  bool renamed = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    LocalDim& local = dims[i];
    if (map_at(access, access.turns.size() + i)) continue;
    const auto name = names.find(local.dim);
    if (name == names.end() || name->second == local.dim) continue;
    local.dim = name->second;
    renamed = true;
  }
  for (IndexMap& map : named.maps)
    if (const auto name = names.find(map.along); name != names.end()) map.along = name->second;
  if (renamed) named.buffer = view(access, dims);
  const Type type = program_.buffer(named.buffer).type;
  return push(pass, {Scalar::Load{std::move(named)}, type});
}

/// The value at the nest's indices in the type of its memory, which is wider for sums over many batches.
int Lowering::as_held(Pass& pass, ValueId value, const Names& names) {
  return memory_[value.index] ? load(pass, *memory_[value.index], names) : scalar(pass, value, names);
}

/// The value at the nest's indices, as an entry of the pass.
int Lowering::scalar(Pass& pass, ValueId value, const Names& names) {
  const Type type = graph_.type(value).element;
  if (memory_[value.index]) return convert(pass, load(pass, *memory_[value.index], names), type);
  if (const auto number = constant(value))
    return convert(pass, push(pass, {Scalar::Literal{*number, counts(value, *number)}, computed_in(type)}), type);
  if (const auto turn = turn_.find(value); turn != turn_.end()) return push(pass, {Scalar::Turn{turn->second}, type});
  const Node& node = graph_.node(graph_.value(value).producer);
  struct Visit {
    Lowering& to;
    Pass& pass;
    const Node& node;
    const Names& names;
    Type type;
    DimId named(DimId dim) const {
      const auto name = names.find(dim);
      return name == names.end() ? dim : name->second;
    }
    int operand() const { return to.scalar(pass, node.inputs[0], names); }
    int operator()(const PositionOp& op) const { return push(pass, {Scalar::Index{named(op.dim)}, type}); }
    int operator()(const StepOp&) const { return push(pass, {Scalar::StepNumber{}, type}); }
    int operator()(const RateOp& op) const { return push(pass, {Scalar::Rate{op}, type}); }
    int operator()(const RandomOp& op) const { return push(pass, {to.random(op, node, names), type}); }
    int operator()(const BroadcastOp&) const { return operand(); }
    int operator()(const ReshardOp&) const { return operand(); }
    int operator()(const RenameOp& op) const {
      Names inner = names;
      for (size_t i = 0; i < op.from.size(); ++i) inner[op.from[i]] = named(op.to[i]);
      return to.scalar(pass, node.inputs[0], inner);
    }
    int loaded(const Access& access) const { return to.convert(pass, to.load(pass, access, names), type); }
    int operator()(const SliceOp&) const { return loaded(to.sliced(node)); }
    int operator()(const ShiftOp&) const { return loaded(to.shifted(node)); }
    int operator()(const PadOp&) const { return loaded(to.padded(node)); }
    int operator()(const MapOp& op) const {
      if (is_cast(op.function)) return to.convert(pass, to.as_held(pass, node.inputs[0], names), type);
      const bool chooses = op.function == MapFunction::where;
      const auto worked_in = [&](Type of) { return chooses ? of : computed_in(of); };
      std::vector<int> operands;
      for (ValueId input : node.inputs)
        operands.push_back(to.convert(pass, to.scalar(pass, input, names), worked_in(to.graph_.type(input).element)));
      return to.convert(pass, to.apply(pass, op.function, std::move(operands), worked_in(type)), type);
    }
    int no_formula() const {
      internal_error("a value of " + simple_name(node.op) + " is neither in memory nor a formula");
    }
    int operator()(const ReadOp&) const { return no_formula(); }
    int operator()(const LiteralOp&) const { return no_formula(); }
    int operator()(const ReduceOp&) const { return no_formula(); }
    int operator()(const ArgReduceOp&) const { return no_formula(); }
    int operator()(const DotOp&) const { return no_formula(); }
    int operator()(const SplitOp&) const { return no_formula(); }
    int operator()(const MergeOp&) const { return no_formula(); }
    int operator()(const TakeOp&) const { return no_formula(); }
    int operator()(const ScatterOp&) const { return no_formula(); }
    int operator()(const ConcatOp&) const { return no_formula(); }
    int operator()(const CumulativeOp&) const { return no_formula(); }
    int operator()(const DefinedOp&) const { return no_formula(); }
    int operator()(const SoftmaxOp&) const { return no_formula(); }
    int operator()(const LogSoftmaxOp&) const { return no_formula(); }
    int operator()(const LogSumExpOp&) const { return no_formula(); }
    int operator()(const AttentionOp&) const { return no_formula(); }
    int operator()(const AttentionGradientOp&) const { return no_formula(); }
    int operator()(const UpdateOp&) const { return no_formula(); }
    int operator()(const UntilOp&) const { return no_formula(); }
    int operator()(const LoopOp&) const { return no_formula(); }
  };
  return std::visit(Visit{*this, pass, node, names, type}, node.op);
}

Scalar::Random Lowering::random(const RandomOp& op, const Node& node, const Names& names) const {
  Scalar::Random result{op.distribution, op.path, {}, {}, op.of_sample};
  std::vector<std::vector<Scalar::Random::Term>>& turns = result.turns;
  for (const ValueId turn : node.inputs) {
    turns.emplace_back();
    for (const TurnTerm& term : turn_terms(graph_, turn)) turns.back().push_back({turn_.at(term.turn), term.times});
  }
  for (auto dim = op.counted.rbegin(); dim != op.counted.rend(); ++dim) {
    Scalar::Random::Counted counted{*dim, {}};
    if (const auto name = names.find(*dim); name != names.end()) counted.dim = name->second;
    if (!has(op.dims, *dim)) {
      counted.turn = turns.back().front().loop;
      turns.pop_back();
    }
    result.dims.insert(result.dims.begin(), counted);
  }
  return result;
}

/// to = value, element by element.
void Lowering::store(ValueId value, const Access& to) {
  Pass pass;
  const auto dims = dims_of(program_, to);
  pass.inner.assign(dims.begin(), dims.end());
  const int what = scalar(pass, value, {});
  pass.stores.push_back({convert(pass, what, program_.buffer(to.buffer).type), to});
  emit(Nest{{}, {std::move(pass)}, {}});
}

/// Leaves a formula to its readers; gives it a buffer where one of them needs it.
void Lowering::lower_formula(ValueId value) {
  if (is_formula(value)) return;
  Pass pass;
  const int what = scalar(pass, value, {});  // before allocate, which says that the value is in memory
  const Access to = allocate(value);
  const auto dims = dims_of(program_, to);
  pass.inner.assign(dims.begin(), dims.end());
  pass.stores.push_back({what, to});
  emit(Nest{{}, {std::move(pass)}, {}});
}

void Lowering::lower_map(const Node& node) { lower_formula(node.results[0]); }

/// outer: what is kept; inner: what is reduced, in lanes.
void Lowering::reduce_rows(const Node& node, const std::vector<LocalDim>& kept, const std::vector<LocalDim>& reduced,
                           Reduce reduce, bool arg) {
  const Type element = graph_.type(node.results[0]).element;
  Nest nest{kept, {}, {}};
  Pass over;
  over.inner = reduced;
  const int what = convert(over, scalar(over, node.inputs[0], {}), computed_in(graph_.type(node.inputs[0]).element));
  over.reductions.push_back({what, reduce, 0, arg});
  nest.rows.push_back(arg ? element : computed_in(element));
  Pass after;
  const int row = push(after, {Scalar::Row{0}, nest.rows[0]});
  after.stores.push_back({convert(after, row, element), allocate(node.results[0])});
  nest.passes.push_back(std::move(over));
  nest.passes.push_back(std::move(after));
  emit(std::move(nest));
}

/// outer: dims up to the last reduced one; inner: the rest, which is kept and lies in one piece.
void Lowering::reduce_columns(const Node& node, const std::vector<LocalDim>& dims, size_t outer, Reduce reduce) {
  const ValueId result = node.results[0];
  const Type element = graph_.type(result).element;
  const auto split = dims.begin() + static_cast<std::ptrdiff_t>(outer);
  Pass pass;
  pass.inner.assign(split, dims.end());
  const int what = convert(pass, scalar(pass, node.inputs[0], {}), computed_in(element));
  Access to = computed_in(element) == element
                  ? allocate(result)
                  : Access{new_buffer(graph_.value(result).name + "_sum", node.scope, computed_in(element),
                                      local_dims(result), BufferKind::workspace, node.span),
                           {}};
  pass.accumulates.push_back({what, reduce, to});
  emit(Nest{{dims.begin(), split}, {std::move(pass)}, {}});
  if (computed_in(element) != element) copy(to, allocate(result));
}

void Lowering::lower_reduce(const Node& node) {
  const ReduceOp& op = std::get<ReduceOp>(node.op);
  if (constant(node.results[0])) return lower_formula(node.results[0]);
  const std::vector<LocalDim> dims = local_dims(node.inputs[0]);
  std::vector<LocalDim> kept, reduced;
  size_t last_reduced = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (has(op.dims, dims[i].dim)) reduced.push_back(dims[i]), last_reduced = i;
    else kept.push_back(dims[i]);
  }
  if (kept.empty() || last_reduced + 1 == dims.size()) return reduce_rows(node, kept, reduced, op.reduce, false);
  reduce_columns(node, dims, last_reduced + 1, op.reduce);
}

void Lowering::lower_arg_reduce(const Node& node) {
  const ArgReduceOp& op = std::get<ArgReduceOp>(node.op);
  std::vector<LocalDim> kept, reduced;
  for (const LocalDim& local : local_dims(node.inputs[0])) (local.dim == op.dim ? reduced : kept).push_back(local);
  reduce_rows(node, kept, reduced, op.largest ? Reduce::max : Reduce::min, true);
}

/// Updates take effect at the end of the step. A new value that lies in the memory of a stored tensor which another
/// update overwrites is brought to safety first.
void Lowering::lower_updates() {
  std::vector<Access> values;
  std::set<BufferId> written;
  for (const Node* node : updates_) written.insert(stored_[std::get<UpdateOp>(node->op).stored.index]);
  for (const Node* node : updates_) {
    node_ = node;
    at_ = where(node->inputs[0]);
    const BufferId to = stored_[std::get<UpdateOp>(node->op).stored.index];
    Access from = in_memory(node->inputs[0]);
    const BufferId memory = storage(program_, from.buffer);
    if (memory != to && written.contains(memory)) {
      const auto dims = dims_of(program_, from);
      const Buffer of = program_.buffer(from.buffer);
      const Access safe{
          new_buffer(of.name + "_before", of.path, of.type, {dims.begin(), dims.end()}, BufferKind::workspace, of.span),
          {}};
      copy(from, safe);
      from = safe;
    }
    values.push_back(from);
  }
  for (size_t i = 0; i < updates_.size(); ++i) {
    node_ = updates_[i];
    at_ = where(node_->inputs[0]);
    copy(values[i], Access{stored_[std::get<UpdateOp>(node_->op).stored.index], {}});
  }
  at_ = {};
  updates_.clear();
}

}  // namespace mesh
