#include "codegen/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "codegen/graph/hash.h"

namespace mesh {

Graph::Graph() = default;
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

void Value::add_name(const std::string& more) {
  if (name.empty()) name = more;
  else if (more != name && std::ranges::find(other_names, more) == other_names.end()) other_names.push_back(more);
}

void Value::add_inner(const Value& value) {
  if (!value.name.empty()) inner_names.push_back(value.name);
  inner_names.insert(inner_names.end(), value.other_names.begin(), value.other_names.end());
}

void Value::take_names(const Value& of) {
  inner_names.insert(inner_names.end(), of.inner_names.begin(), of.inner_names.end());
  if (of.name.empty()) return;
  add_name(of.name);
  for (const std::string& other : of.other_names) add_name(other);
}

const char* name_of(Part part) {
  switch (part) {
    case Part::forward: return "forward";
    case Part::recompute: return "recompute";
    case Part::input_gradient: return "input_gradient";
    case Part::weight_gradient: return "weight_gradient";
    case Part::update: return "update";
  }
  return "?";
}

const char* phase_of(Part part) {
  switch (part) {
    case Part::forward: return "forward";
    case Part::recompute:
    case Part::input_gradient:
    case Part::weight_gradient: return "backward";
    case Part::update: return "update";
  }
  return "?";
}

const char* name_of(Distribution distribution) { return distribution == Distribution::uniform ? "uniform" : "normal"; }

double Schedule::value(const std::string& key) const {
  for (const auto& [name, number] : values)
    if (name == key) return number;
  return 0;
}

std::string to_string(const RateOp& rate) {
  std::string text;
  for (const Schedule& factor : rate.factors) {
    std::string values;
    for (const auto& [name, value] : factor.values)
      values += fmt::format("{}{}: {}", values.empty() ? "" : ", ", name, value);
    text += fmt::format("{}{}({})", text.empty() ? "" : " * ", factor.name, values);
  }
  return text;
}

double replaced_rate(const RateOp& rate) {
  for (const Schedule& factor : rate.factors)
    if (factor.of_run) return factor.value(factor.name == "constant" ? "rate" : "peak");
  return 0;
}

DimId renamed(const RenameOp& op, DimId dim) {
  const auto found = std::find(op.from.begin(), op.from.end(), dim);
  return found == op.from.end() ? dim : op.to[static_cast<size_t>(found - op.from.begin())];
}

ValueId until(const Graph& graph, const LoopOp& loop) {
  const std::vector<NodeId>& nodes = graph.body(loop.body).nodes;
  if (nodes.empty() || !std::holds_alternative<UntilOp>(graph.node(nodes.back()).op)) return {};
  return graph.node(nodes.back()).inputs[0];
}

int64_t Graph::elements(const ValueType& type) const {
  int64_t n = 1;
  for (DimId d : type.dims) n *= dim(d).size;
  return n;
}

namespace {

struct DimsOfOp {
  const std::function<void(DimId&)>& one;
  void many(std::vector<DimId>& dims) const {
    for (DimId& dim : dims) one(dim);
  }
  void operator()(ReadOp&) const {}
  void operator()(LiteralOp&) const {}
  void operator()(StepOp&) const {}
  void operator()(RateOp&) const {}
  void operator()(MapOp&) const {}
  void operator()(UpdateOp&) const {}
  void operator()(UntilOp&) const {}
  void operator()(ReshardOp&) const {}
  void operator()(PositionOp& op) const { one(op.dim); }
  void operator()(RandomOp& op) const { many(op.dims), many(op.counted); }
  void operator()(BroadcastOp& op) const { many(op.dims); }
  void operator()(ReduceOp& op) const { many(op.dims); }
  void operator()(ArgReduceOp& op) const { one(op.dim); }
  void operator()(DotOp& op) const { many(op.dims); }
  void operator()(RenameOp& op) const { many(op.from), many(op.to); }
  void operator()(SplitOp& op) const { one(op.from), many(op.to); }
  void operator()(MergeOp& op) const { many(op.from), one(op.to); }
  void operator()(TakeOp& op) const { one(op.dim); }
  void operator()(ScatterOp& op) const { one(op.dim), many(op.table); }
  void operator()(SliceOp& op) const { one(op.from), one(op.to); }
  void operator()(PadOp& op) const { one(op.from), one(op.to); }
  void operator()(ShiftOp& op) const { one(op.dim); }
  void operator()(ConcatOp& op) const { many(op.parts), one(op.to); }
  void operator()(CumulativeOp& op) const { one(op.dim); }
  void operator()(DefinedOp& op) const { many(op.dims); }
  void operator()(SoftmaxOp& op) const { one(op.dim); }
  void operator()(LogSoftmaxOp& op) const { one(op.dim); }
  void operator()(LogSumExpOp& op) const { many(op.dims); }
  void operator()(AttentionOp& op) const { one(op.query), one(op.key), one(op.head_dim), one(op.value_dim); }
  void operator()(AttentionGradientOp& op) const { (*this)(op.forward); }
  void operator()(LoopOp& op) const { one(op.dim); }
};

}  // namespace

void for_each_dim(Op& op, const std::function<void(DimId&)>& visit) { std::visit(DimsOfOp{visit}, op); }

bool names_dim(Op op, DimId dim) {
  bool found = false;
  for_each_dim(op, [&](DimId& one) { found = found || one == dim; });
  return found;
}

namespace {

/// The numbers that tell apart ops of which graphs have many.
struct Numbers {
  const std::function<void(size_t)> add;
  void operator()(const ReadOp& read) const { add(read.stored.index); }
  void operator()(const UpdateOp& update) const { add(update.stored.index); }
  void operator()(const LiteralOp& literal) const { add(std::bit_cast<uint64_t>(literal.value.value)); }
  void operator()(const MapOp& map) const { add(static_cast<size_t>(map.function)); }
  void operator()(const SliceOp& slice) const { add(static_cast<size_t>(slice.begin)); }
  void operator()(const DefinedOp& op) const {
    for (int64_t number : op.numbers) add(static_cast<size_t>(number));
  }
  void operator()(const auto&) const {}
};

}  // namespace

size_t hash_of(const Op& op) {
  size_t hash = op.index();
  const auto add = [&hash](size_t more) { hash = hash_with(hash, more); };
  std::visit(Numbers{add}, op);
  Op named = op;
  for_each_dim(named, [&](DimId& dim) { add(dim.index); });
  return hash;
}

StoredId parameter_of(const Graph& graph, StoredId id) {
  while (graph.stored[id.index].parameter) id = graph.stored[id.index].parameter;
  return id;
}

std::vector<DimId> sample_dims(const Graph& graph) {
  if (!graph.sample_dim) return {};
  std::vector<DimId> dims;
  DimId innermost = graph.sample_dim;
  for (const SampleParts* parts : {&graph.replicas, &graph.micro_batches}) {
    if (!parts->turns) continue;
    dims.push_back(parts->turns);
    innermost = parts->part;
  }
  dims.push_back(innermost);
  return dims;
}

bool has_samples(const Graph& graph, const ValueType& type) {
  const auto names_it = [](const SampleParts& parts, DimId dim) {
    return dim == parts.samples || dim == parts.part ||
           std::ranges::any_of(parts.names, [&](const auto& name) { return dim == name.samples || dim == name.part; });
  };
  return std::ranges::any_of(type.dims, [&](DimId dim) {
    return dim == graph.sample_dim || names_it(graph.replicas, dim) || names_it(graph.micro_batches, dim);
  });
}

bool takes_parts(const Graph& graph, const LoopOp& loop) {
  return loop.dim && (loop.dim == graph.micro_batches.turns || loop.dim == graph.replicas.turns);
}

std::vector<std::pair<std::string, int64_t>> written_dims(const Graph& graph, const ValueType& type) {
  const std::vector<DimId> cut = sample_dims(graph);
  std::vector<std::pair<std::string, int64_t>> dims;
  for (std::span<const DimId> rest = type.dims; !rest.empty();) {
    const bool are_samples =
        !cut.empty() && rest.size() >= cut.size() && std::ranges::equal(rest.first(cut.size()), cut);
    const Dim& dim = graph.dim(are_samples ? graph.sample_dim : rest.front());
    dims.emplace_back(dim.name, dim.size);
    rest = rest.subspan(are_samples ? cut.size() : 1);
  }
  return dims;
}

std::string to_string(const Graph& graph, const ValueType& type) {
  std::string text =
      type.index_of ? fmt::format("index({})", graph.dim(type.index_of).name) : meshrt::name_of(type.element);
  if (type.dims.empty()) return text;
  text += "[";
  for (size_t i = 0; i < type.dims.size(); ++i) text += (i ? ", " : "") + graph.dim(type.dims[i]).name;
  return text + "]";
}

}  // namespace mesh
