#include "codegen/gradient/micro_batch_dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/gradient/sample_sums.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

class Naming {
 public:
  Naming(Graph& graph, const MicroBatches& parts, const std::vector<GatheredValue>& gathered)
      : graph_(graph), parts_(parts), whole_(gathered) {}

  void run() {
    const auto cut_names = [&](std::vector<DimId>& dims) {
      for (DimId& dim : dims)
        if (const DimId micro = micro_name(parts_, dim)) dim = micro;
    };
    std::set<BodyId> cut;
    for (uint32_t b = 1; b < graph_.bodies.size(); ++b)
      for (BodyId at{b}; at != graph_.root(); at = graph_.node(graph_.body(at).owner).body)
        if (std::get<LoopOp>(graph_.node(graph_.body(at).owner).op).dim == parts_.time) cut.insert(BodyId{b});
    for (Value& value : graph_.values)
      if (cut.contains(value.body)) cut_names(value.type.dims);
    for (const auto& one : whole_)
      if (one.stacked != *one.wanted) cut_names(graph_.value(one.stacked).type.dims);
    for (Stored& stored : graph_.stored) cut_dims(stored);
    for (BodyId body : cut) {
      for (NodeId id : graph_.body(body).nodes) {
        Node& node = graph_.node(id);
        if (counted_name(node)) continue;
        for_each_dim(node.op, [&](DimId& dim) {
          if (const DimId micro = micro_name(parts_, dim)) dim = micro;
        });
      }
      global_positions(body);
      global_numbers(body);
    }
    merge_wanted();
  }

 private:
  void cut_dims(Stored& stored) {
    const auto at = std::ranges::find(stored.type.dims, parts_.samples);
    if (stored.kind != StoredKind::input || at == stored.type.dims.end()) return;
    *at = parts_.micro;
    stored.type.dims.insert(at, parts_.time);
    graph_.value(stored.value).type.dims = stored.type.dims;
  }

  /// Of positions along samples, by one of their names, what that is in a micro-batch; else unset.
  DimId counted_name(const Node& node) const {
    const std::optional<DimId> along = positions_along(graph_, node);
    return along ? micro_name(parts_, *along) : DimId{};
  }

  /// position[batch] is turn * size of a micro-batch + position[micro].
  void global_positions(BodyId body) {
    std::vector<NodeId> old;
    old.swap(graph_.body(body).nodes);
    for (NodeId id : old) {
      graph_.body(body).nodes.push_back(id);
      const DimId micro = counted_name(graph_.node(id));
      if (!micro) continue;
      for_each_dim(graph_.node(id).op, [&](DimId& dim) { dim = micro; });
      GraphBuilder build = beside(graph_, graph_.node(id));
      const ValueId local = graph_.node(id).results[0];
      const double size = static_cast<double>(graph_.dim(micro).size);
      const ValueId begin = build.multiply(turn_around(body), size), global = build.add(local, begin);
      const NodeId sum = graph_.value(global).producer;
      for_each_use(graph_, [&](ValueId& value) {
        if (value == local) value = global;
      });
      graph_.node(sum).inputs = {local, begin};
    }
  }

  /// Random numbers are counted by samples, by whatever name, not by those of a micro-batch.
  void global_numbers(BodyId body) {
    for (NodeId id : graph_.body(body).nodes) {
      RandomOp* random = std::get_if<RandomOp>(&graph_.node(id).op);
      if (!random) continue;
      const auto micro = std::ranges::find_if(random->counted, [&](DimId dim) {
        return dim == parts_.micro || std::ranges::count(parts_.names, dim, &MicroBatches::Name::micro) > 0;
      });
      if (micro == random->counted.end()) continue;
      random->counted.insert(micro, parts_.time);
      const ValueId turn = turn_around(body);
      graph_.node(id).inputs.push_back(turn);
    }
  }

  /// The turn of the loop over `time` around a body.
  ValueId turn_around(BodyId body) {
    NodeId owner = graph_.body(body).owner;
    while (std::get<LoopOp>(graph_.node(owner).op).dim != parts_.time) {
      body = graph_.node(owner).body;
      owner = graph_.body(body).owner;
    }
    LoopOp& loop = std::get<LoopOp>(graph_.node(owner).op);
    if (!loop.index) {
      const ValueId index = GraphBuilder(graph_).argument(ValueType{Type::i32, {}, {}}, body, owner);
      std::get<LoopOp>(graph_.node(owner).op).index = index;
      return index;
    }
    return loop.index;
  }

  void merge_wanted() {
    GraphBuilder build(graph_);
    for (const GatheredValue& one : whole_) {
      build.span = graph_.node(graph_.value(*one.wanted).producer).span;
      const auto name = std::ranges::find_if(one.dims, [&](DimId dim) { return bool(micro_name(parts_, dim)); });
      const ValueId merged = build.value(MergeOp{{parts_.time, micro_name(parts_, *name)}, *name}, {one.stacked});
      const ValueId value = build.in_order(merged, one.dims);  // the declared one
      graph_.value(value).take_names(graph_.value(*one.wanted));
      *one.wanted = value;
    }
  }

  Graph& graph_;
  const MicroBatches& parts_;
  const std::vector<GatheredValue>& whole_;
};

/// The name, or a longer one that no dim has.
std::string fresh_dim_name(const Graph& graph, std::string name) {
  const auto taken = [&] { return std::ranges::count(graph.dims, name, &Dim::name) > 0; };
  while (taken()) name += "_";
  return name;
}

}  // namespace

DimId micro_name(const MicroBatches& parts, DimId dim) {
  if (dim == parts.samples) return parts.micro;
  const auto other = std::ranges::find(parts.names, dim, &MicroBatches::Name::samples);
  return other == parts.names.end() ? DimId{} : other->micro;
}

bool has_samples(const Graph& graph, ValueId value) {
  return std::ranges::any_of(graph.type(value).dims,
                             [&](DimId dim) { return bool(micro_name(graph.micro_batches, dim)); });
}

void declare_parts(Graph& graph, MicroBatches parts, int64_t turns, int64_t cut, const PartNames& called) {
  const auto part_of = [&](DimId dim) {
    const Dim whole = graph.dim(dim);
    return GraphBuilder(graph).dim(fresh_dim_name(graph, called.part + whole.name), whole.size / cut, whole.span);
  };
  parts.time = GraphBuilder(graph).dim(fresh_dim_name(graph, called.turn), turns, parts.span);
  parts.micro = part_of(parts.samples);
  for (const DimId name : names_of_samples(graph, parts.samples, cut))
    if (name != parts.samples) parts.names.push_back({name, part_of(name)});
  graph.micro_batches = parts;
}

bool samples_first(const Graph& graph, DiagnosticSink& sink) {
  bool good = true;
  const MicroBatches& parts = graph.micro_batches;
  const std::string& samples = graph.dim(parts.samples).name;
  for (const Stored& stored : graph.stored) {
    const auto at = std::ranges::find(stored.type.dims, parts.samples);
    if (at == stored.type.dims.end() || (stored.kind == StoredKind::input && at == stored.type.dims.begin())) continue;
    if (stored.kind == StoredKind::optimizer) continue;  // its parameter's dims
    good = false;
    const std::string why = stored.kind == StoredKind::input
                                ? fmt::format("`{}` is not its first dim", samples)
                                : fmt::format("it has a part for every index of `{}`", samples);
    sink.error("E0413", stored.span, "`{}` cannot be cut into {}: {}", stored.path,
               parts.by_replicas ? "parts of replicas" : "micro-batches", why)
        .label(parts.span, "cuts the batch");
  }
  return good;
}

void name_micro_batches(Graph& graph, const MicroBatches& parts, const std::vector<GatheredValue>& gathered) {
  Naming(graph, parts, gathered).run();
}

}  // namespace mesh
