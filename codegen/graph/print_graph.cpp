#include "codegen/graph/print_graph.h"

#include <fmt/format.h>

#include <cstdlib>

#include "codegen/graph/band.h"
#include "codegen/graph/op.h"

namespace mesh {

const std::string& known_as(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.name.empty() ? value.label : value.name;
}

std::string dims_text(const Graph& graph, const std::vector<DimId>& dims, const char* between) {
  std::string text;
  for (DimId dim : dims) text += (text.empty() ? "" : between) + graph.dim(dim).name;
  return text;
}

namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

/// "rename[seq as key, heads as other]"
std::string rename_text(const Graph& graph, const RenameOp& op) {
  std::string text;
  for (size_t i = 0; i < op.from.size(); ++i)
    text += fmt::format("{}{} as {}", i == 0 ? "" : ", ", graph.dim(op.from[i]).name, graph.dim(op.to[i]).name);
  return "rename[" + text + "]";
}

/// "slice[token = 0]", "slice[token = 1.. step 2 as patch]"
std::string slice_text(const Graph& graph, const SliceOp& op) {
  std::string text = fmt::format("slice[{} = {}", graph.dim(op.from).name, op.begin);
  if (op.to)
    text += fmt::format("..{} as {}", op.step == 1 ? "" : fmt::format(" step {}", op.step), graph.dim(op.to).name);
  return text + "]";
}

/// "pad[patch as token, before 1]"
std::string pad_text(const Graph& graph, const PadOp& op) {
  std::string text = fmt::format("pad[{} as {}, before {}", graph.dim(op.from).name, graph.dim(op.to).name, op.before);
  if (op.every != 1) text += fmt::format(", every {}", op.every);
  if (op.value != 0) text += fmt::format(", value {}", double(op.value));
  return text + "]";
}

/// "shift[x + 1, clamp]"
std::string shift_text(const Graph& graph, const ShiftOp& op) {
  const std::string edge = op.edge.kind == Edge::Kind::wrap    ? "wrap"
                           : op.edge.kind == Edge::Kind::clamp ? "clamp"
                                                               : fmt::format("{}", op.edge.value);
  return fmt::format("shift[{} {} {}, {}]", graph.dim(op.dim).name, op.distance < 0 ? '-' : '+', std::abs(op.distance),
                     edge);
}

/// "concat[cls + patch as token]", "stack[two]"
std::string concat_text(const Graph& graph, const ConcatOp& op) {
  if (!op.parts[0]) return fmt::format("stack[{}]", graph.dim(op.to).name);
  return fmt::format("concat[{} as {}]", dims_text(graph, op.parts, " + "), graph.dim(op.to).name);
}

class Printer {
 public:
  Printer(const Graph& graph, const std::function<std::string(ValueId)>& extra) : graph_(graph), extra_(extra) {}

  std::string run() {
    out_ += "model " + graph_.model + "\n";
    for (const Bound& bound : graph_.bounds)
      out_ += fmt::format("  of {} the elements up to {}\n", graph_.dim(bound.dim).name,
                          graph_.stored[bound.last.index].path);
    body(graph_.root(), 1);
    for (const Metric& metric : graph_.metrics)
      out_ += fmt::format("{} {} = {}\n", metric.watched() ? "watch" : "metric", metric.name,
                          value_name(graph_, metric.value));
    if (graph_.objective)
      out_ +=
          fmt::format("minimize {} with {}\n", value_name(graph_, graph_.objective->loss), graph_.objective->optimizer);
    return out_;
  }

 private:
  void body(BodyId id, size_t depth) {
    for (NodeId node : graph_.body(id).nodes) print(graph_.node(node), depth);
  }

  std::string typed(ValueId id) const {
    return value_name(graph_, id) + " : " + to_string(graph_, graph_.type(id)) + (extra_ ? " " + extra_(id) : "");
  }

  void print(const Node& node, size_t depth) {
    const std::string indent(2 * depth, ' ');
    if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) {
      out_ += fmt::format("{}repeat {}{}{}\n", indent, graph_.dim(loop->dim).name, loop->reverse ? " backwards" : "",
                          part(node));
      for (const auto& c : loop->carries)
        out_ += fmt::format("{}  carry {} <- first {}, then {}; gives {}\n", indent, typed(c.entering),
                            value_name(graph_, c.initial), value_name(graph_, c.leaving), typed(c.result));
      for (const auto& s : loop->slices)
        out_ += fmt::format("{}  slice {} of {}\n", indent, typed(s.turn), value_name(graph_, s.stacked));
      if (loop->index) out_ += fmt::format("{}  turn {}\n", indent, typed(loop->index));
      body(loop->body, depth + 2);
      for (const auto& c : loop->collects)
        out_ += fmt::format("{}  collect {} into {}\n", indent, value_name(graph_, c.turn), typed(c.stacked));
      return;
    }
    std::string results, inputs;
    for (ValueId id : node.results) results += (results.empty() ? "" : ", ") + typed(id);
    for (ValueId id : node.inputs) inputs += (inputs.empty() ? "" : ", ") + value_name(graph_, id);
    out_ += fmt::format("{}{}{}{}({}){}\n", indent, results, results.empty() ? "" : " = ", op_text(graph_, node.op),
                        inputs, part(node));
  }

  static std::string part(const Node& node) {
    return node.part == Part::forward ? "" : fmt::format("   # {}", name_of(node.part));
  }

  const Graph& graph_;
  const std::function<std::string(ValueId)>& extra_;
  std::string out_;
};

}  // namespace

std::string value_name(const Graph& graph, ValueId id) {
  if (!id) return "nothing";
  const std::string& name = graph.value(id).name;
  return fmt::format("%{}{}{}", id.index, name.empty() ? "" : " ", name);
}

std::string op_text(const Graph& graph, const Op& op) {
  const std::string_view name = definition(op).name;
  const auto of = [&](const std::vector<DimId>& dims) { return fmt::format("{}[{}]", name, dims_text(graph, dims)); };
  return std::visit(
      Overloaded{
          [&](const ReadOp& o) { return "read " + graph.stored[o.stored.index].path; },
          [&](const LiteralOp& o) { return fmt::format("literal {}", double(o.value)); },
          [&](const PositionOp& o) { return of({o.dim}); },
          [&](const RateOp& o) { return "rate " + to_string(o); },
          [&](const RandomOp& o) {
            const char* const by = o.of_sample > 0 ? " by set" : "";
            return fmt::format("random_{} {}[{}]{}", name_of(o.distribution), o.path, dims_text(graph, o.dims), by);
          },
          [&](const MapOp& o) { return std::string(info(o.function).name); },
          [&](const BroadcastOp& o) { return of(o.dims); },
          [&](const ReduceOp& o) {
            return std::string(meshrt::name_of(o.reduce)) + "[" + dims_text(graph, o.dims) + "]";
          },
          [&](const ArgReduceOp& o) {
            return std::string(o.largest ? "argmax[" : "argmin[") + graph.dim(o.dim).name + "]";
          },
          [&](const DotOp& o) { return of(o.dims); },
          [&](const RenameOp& o) { return rename_text(graph, o); },
          [&](const SplitOp& o) {
            return fmt::format("split[{} as {}]", graph.dim(o.from).name, dims_text(graph, o.to, " * "));
          },
          [&](const MergeOp& o) {
            return fmt::format("merge[{} as {}]", dims_text(graph, o.from, " * "), graph.dim(o.to).name);
          },
          [&](const TakeOp& o) { return of({o.dim}); },
          [&](const ScatterOp& o) { return of({o.dim}); },
          [&](const SliceOp& o) { return slice_text(graph, o); },
          [&](const PadOp& o) { return pad_text(graph, o); },
          [&](const ShiftOp& o) { return shift_text(graph, o); },
          [&](const ConcatOp& o) { return concat_text(graph, o); },
          [&](const CumulativeOp& o) {
            return fmt::format("cumsum[{}{}]", graph.dim(o.dim).name, o.reverse ? ", reverse" : "");
          },
          [&](const DefinedOp& o) { return o.kind->text(graph, o); },
          [&](const SoftmaxOp& o) { return of({o.dim}); },
          [&](const LogSoftmaxOp& o) { return of({o.dim}); },
          [&](const LogSumExpOp& o) { return of(o.dims); },
          [&](const AttentionOp& o) {
            return fmt::format("attention[{}, {}{}]", graph.dim(o.query).name, graph.dim(o.key).name,
                               band_text(graph.dim(o.query).name, graph.dim(o.key).name, o.least, o.most));
          },
          [&](const AttentionGradientOp& o) {
            return fmt::format("attention_gradient[{}, {}]", graph.dim(o.forward.query).name,
                               graph.dim(o.forward.key).name);
          },
          [&](const UpdateOp& o) { return "update " + graph.stored[o.stored.index].path; },
          [&](const ReshardOp& o) { return fmt::format("reshard #{}", o.step); },
          [&](const auto&) { return std::string(name); },
      },
      op);
}

std::string print_graph(const Graph& graph, const std::function<std::string(ValueId)>& extra) {
  return Printer(graph, extra).run();
}

}  // namespace mesh
