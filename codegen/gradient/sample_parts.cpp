#include "codegen/gradient/sample_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/gradient/sample_sums.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/draws.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

class Naming {
 public:
  Naming(Graph& graph, const SampleParts& parts, const SampleParts& within, const std::vector<GatheredValue>& gathered)
      : graph_(graph), parts_(parts), within_(within), whole_(gathered) {}

  void run() {
    const auto cut_names = [&](std::vector<DimId>& dims) {
      for (DimId& dim : dims)
        if (const DimId part = name_in_part(parts_, dim)) dim = part;
    };
    std::set<BodyId> cut;
    for (uint32_t b = 1; b < graph_.bodies.size(); ++b)
      for (BodyId at{b}; at != graph_.root(); at = graph_.node(graph_.body(at).owner).body)
        if (std::get<LoopOp>(graph_.node(graph_.body(at).owner).op).dim == parts_.turns) cut.insert(BodyId{b});
    for (Value& value : graph_.values)
      if (cut.contains(value.body)) cut_names(value.type.dims);
    for (const auto& one : whole_)
      if (one.stacked != *one.wanted) cut_names(graph_.value(one.stacked).type.dims);
    for (Stored& stored : graph_.stored) cut_dims(stored);
    for (BodyId body : cut) {
      for (NodeId id : graph_.body(body).nodes) {
        Node& node = graph_.node(id);
        if (counted_along(node)) continue;
        for_each_dim(node.op, [&](DimId& dim) {
          if (const DimId part = name_in_part(parts_, dim)) dim = part;
        });
      }
      global_positions(body);
      global_numbers(body);
    }
    merge_wanted();
  }

 private:
  void cut_dims(Stored& stored) {
    if (stored.kind != StoredKind::input) return;
    std::vector<DimId>& dims = stored.type.dims;
    auto at = std::ranges::find(dims, parts_.samples);
    if (at != dims.end()) *at = parts_.part;
    else if (!within_.turns || (at = std::ranges::find(dims, within_.turns)) == dims.end()) return;
    dims.insert(at, parts_.turns);
    graph_.value(stored.value).type.dims = dims;
  }

  /// How positions along samples are counted in a part, and how many of them a part has.
  struct Counted {
    DimId along;
    double of_part;
  };

  /// Of positions along samples, by one of their names or by one in a part of a part; else nothing.
  std::optional<Counted> counted_along(const Node& node) const {
    const std::optional<DimId> along = positions_along(graph_, node);
    if (!along) return {};
    // A name in a part of a part stays as it is: only where it begins is moved.
    const auto counted = [&](DimId whole, DimId stays) -> std::optional<Counted> {
      const DimId part = name_in_part(parts_, whole);
      if (!part) return {};
      return Counted{stays ? stays : part, static_cast<double>(graph_.dim(part).size)};
    };
    if (*along == within_.part) return counted(within_.samples, *along);
    for (const SampleParts::Name& name : within_.names)
      if (*along == name.part) return counted(name.samples, *along);
    return counted(*along, {});
  }

  /// position[batch] is turn * size of a part + position[part].
  void global_positions(BodyId body) {
    std::vector<NodeId> old;
    old.swap(graph_.body(body).nodes);
    for (NodeId id : old) {
      graph_.body(body).nodes.push_back(id);
      const std::optional<Counted> counted = counted_along(graph_.node(id));
      if (!counted) continue;
      for_each_dim(graph_.node(id).op, [&](DimId& dim) { dim = counted->along; });
      GraphBuilder build = beside(graph_, graph_.node(id));
      const ValueId local = graph_.node(id).results[0];
      const ValueId begin = build.multiply(turn_around(graph_, body, parts_.turns), counted->of_part),
                    global = build.add(local, begin);
      const NodeId sum = graph_.value(global).producer;
      for_each_use(graph_, [&](ValueId& value) {
        if (value == local) value = global;
      });
      graph_.node(sum).inputs = {local, begin};
    }
  }

  /// Random numbers are counted by samples, by whatever name, not by those of a part.
  void global_numbers(BodyId body) {
    for (NodeId id : graph_.body(body).nodes) {
      RandomOp* random = draw_of(graph_.node(id));
      if (!random) continue;
      const auto at = std::ranges::find_if(random->counted, [&](DimId dim) {
        return dim == parts_.part || std::ranges::count(parts_.names, dim, &SampleParts::Name::part) > 0 ||
               (within_.turns && dim == within_.turns);
      });
      if (at == random->counted.end()) continue;
      const auto is_turn = [&](DimId dim) { return !has(random->dims, dim); };
      const auto turns_from_here = std::count_if(at, random->counted.end(), is_turn);
      random->counted.insert(at, parts_.turns);
      const ValueId turn = turn_around(graph_, body, parts_.turns);
      std::vector<ValueId>& inputs = graph_.node(id).inputs;
      inputs.insert(inputs.end() - turns_from_here, turn);
    }
  }

  void merge_wanted() {
    GraphBuilder build(graph_);
    for (const GatheredValue& one : whole_) {
      build.span = graph_.node(graph_.value(*one.wanted).producer).span;
      const auto name = std::ranges::find_if(one.dims, [&](DimId dim) { return bool(name_in_part(parts_, dim)); });
      const ValueId merged = build.value(MergeOp{{parts_.turns, name_in_part(parts_, *name)}, *name}, {one.stacked});
      const ValueId value = build.in_order(merged, one.dims);  // the declared one
      graph_.value(value).take_names(graph_.value(*one.wanted));
      *one.wanted = value;
    }
  }

  Graph& graph_;
  const SampleParts& parts_;
  const SampleParts& within_;
  const std::vector<GatheredValue>& whole_;
};

}  // namespace

ValueId turn_around(Graph& graph, BodyId body, DimId turns) {
  NodeId owner = graph.body(body).owner;
  while (std::get<LoopOp>(graph.node(owner).op).dim != turns) {
    body = graph.node(owner).body;
    owner = graph.body(body).owner;
  }
  if (const ValueId known = std::get<LoopOp>(graph.node(owner).op).index) return known;
  const ValueId index = GraphBuilder(graph).argument(ValueType{Type::i32, {}, {}}, body, owner);
  std::get<LoopOp>(graph.node(owner).op).index = index;
  return index;
}

const char* parts_text(const SampleParts& parts) { return parts.by_replicas ? "parts of replicas" : "micro-batches"; }

DimId name_in_part(const SampleParts& parts, DimId dim) {
  if (dim == parts.samples) return parts.part;
  const auto other = std::ranges::find(parts.names, dim, &SampleParts::Name::samples);
  return other == parts.names.end() ? DimId{} : other->part;
}

SampleParts declare_parts(Graph& graph, SampleParts parts, int64_t turns, int64_t cut, const PartNames& called) {
  const auto part_of = [&](DimId dim) {
    const Dim whole = graph.dim(dim);
    return GraphBuilder(graph).fresh_dim(called.part + whole.name, whole.size / cut, whole.span);
  };
  parts.turns = GraphBuilder(graph).fresh_dim(called.turn, turns, parts.span);
  parts.part = part_of(parts.samples);
  for (const DimId name : names_of_samples(graph, parts.samples, cut))
    if (name != parts.samples) parts.names.push_back({name, part_of(name)});
  return parts;
}

bool samples_first(const Graph& graph, const SampleParts& parts, DiagnosticSink& sink) {
  bool good = true;
  const std::string& samples = graph.dim(parts.samples).name;
  for (const Stored& stored : graph.stored) {
    const auto at = std::ranges::find(stored.type.dims, parts.samples);
    if (at == stored.type.dims.end() || (stored.kind == StoredKind::input && at == stored.type.dims.begin())) continue;
    if (stored.kind == StoredKind::optimizer) continue;  // its parameter's dims
    good = false;
    const std::string why = stored.kind == StoredKind::input
                                ? fmt::format("`{}` is not its first dim", samples)
                                : fmt::format("it has a part for every index of `{}`", samples);
    sink.error("E0413", stored.span, "`{}` cannot be cut into {}: {}", stored.path, parts_text(parts), why)
        .label(parts.span, "cuts the batch");
  }
  return good;
}

void name_parts(Graph& graph, const SampleParts& parts, const SampleParts& within,
                const std::vector<GatheredValue>& gathered) {
  Naming(graph, parts, within, gathered).run();
}

}  // namespace mesh
