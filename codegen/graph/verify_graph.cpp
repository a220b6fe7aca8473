#include "codegen/graph/verify_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"

namespace mesh {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const char* pass) : graph_(graph), pass_(pass), defined_(graph.values.size()) {}

  void run() {
    body(graph_.root(), [&] {
      for (const Metric& metric : graph_.metrics) require_defined(metric.value, "metric " + metric.name);
      for (const Wanted& wanted : graph_.wanted) require_defined(wanted.value, "wanted " + wanted.name);
      for (const Output& output : graph_.outputs)
        if (!output.stored) require_defined(output.value, "output " + output.name);
    });
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { internal_error(fmt::format("after {}: {}", pass_, what)); }

  void require_defined(ValueId id, const std::string& by) const {
    if (!id || !defined_[id.index])
      fail(fmt::format("{} reads {}, which is not defined there", by, value_name(graph_, id)));
  }

  void define(ValueId id) {
    if (defined_[id.index]) fail(value_name(graph_, id) + " is defined twice");
    defined_[id.index] = true;
  }

  static std::vector<DimId> in_any_order(std::vector<DimId> dims) {
    std::sort(dims.begin(), dims.end());
    return dims;
  }

  void same_type(ValueId a, ValueId b, const char* what) const {
    ValueType left = graph_.type(a), right = graph_.type(b);
    // A set of dims: the order is the program's business.
    left.dims = in_any_order(left.dims);
    right.dims = in_any_order(right.dims);
    if (left != right)
      fail(fmt::format("{}: {} is {}, {} is {}", what, value_name(graph_, a), to_string(graph_, graph_.type(a)),
                       value_name(graph_, b), to_string(graph_, graph_.type(b))));
  }

  void turn_type(ValueId stacked, ValueId turn, DimId dim) const {
    ValueType type = graph_.type(stacked);
    if (type.dims.empty() || type.dims[0] != dim) fail(value_name(graph_, stacked) + " must have its loop's dim first");
    type.dims.erase(type.dims.begin());
    type.dims = in_any_order(type.dims);
    ValueType one = graph_.type(turn);
    one.dims = in_any_order(one.dims);
    if (type != one)
      fail(fmt::format("a turn of {} is not {}", value_name(graph_, stacked), to_string(graph_, graph_.type(turn))));
  }

  /// Walks a body; `at_end` runs while its values are still in scope.
  template <class AtEnd>
  void body(BodyId id, AtEnd at_end) {
    std::vector<ValueId> here;
    for (NodeId node_id : graph_.body(id).nodes) {
      const Node& node = graph_.node(node_id);
      if (node.body != id) fail("a node lies in a body that does not list it: " + op_text(graph_, node.op));
      for (ValueId input : node.inputs) {
        require_defined(input, op_text(graph_, node.op));
        check_parts(node, input);
      }
      check_types(node);
      if (std::holds_alternative<UntilOp>(node.op) && node_id != graph_.body(id).nodes.back())
        fail("`until` is not the last node of its body");
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) inside(*loop);
      for (ValueId result : node.results) {
        define(result);
        here.push_back(result);
      }
    }
    at_end();
    for (ValueId value : here) defined_[value.index] = false;
  }

  /// That the operands fit the op, and the results are what it makes of them.
  void check_types(const Node& node) const {
    if (std::holds_alternative<LoopOp>(node.op)) return;  // inside()
    std::vector<ValueType> made;
    try {
      made = definition(node.op).infer(graph_, node);
    } catch (const std::logic_error& error) {
      fail(error.what());
    }
    if (made.size() != node.results.size()) fail(op_text(graph_, node.op) + " has another number of results");
    for (size_t i = 0; i < made.size(); ++i) check_type(node, made[i], node.results[i]);
  }

  void check_type(const Node& node, const ValueType& made, ValueId result) const {
    const ValueType& type = graph_.type(result);
    const bool same_index = !made.index_of || !type.index_of || made.index_of == type.index_of;
    const std::vector<DimId> dims = in_any_order(type.dims);
    if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
      fail(fmt::format("{} has a dim twice: {}", value_name(graph_, result), to_string(graph_, type)));
    if (made.element == type.element && same_index && dims == in_any_order(made.dims)) return;
    fail(fmt::format("{} is {}, but {} gives {}", value_name(graph_, result), to_string(graph_, type),
                     op_text(graph_, node.op), to_string(graph_, made)));
  }

  void check_parts(const Node& node, ValueId input) const {
    const Part from = graph_.node(graph_.value(input).producer).part;
    if (node.part == Part::input_gradient && from == Part::weight_gradient &&
        !std::holds_alternative<LoopOp>(node.op) &&
        !std::holds_alternative<LoopOp>(graph_.node(graph_.value(input).producer).op))
      fail(fmt::format("{} of I reads {} of W", op_text(graph_, node.op), value_name(graph_, input)));
  }

  void inside(const LoopOp& loop) {
    std::vector<ValueId> arguments;
    for (const auto& c : loop.carries) {
      same_type(c.initial, c.entering, "carry");
      same_type(c.leaving, c.entering, "carry");
      same_type(c.result, c.entering, "carry");
      arguments.push_back(c.entering);
    }
    for (const auto& s : loop.slices) turn_type(s.stacked, s.turn, loop.dim), arguments.push_back(s.turn);
    if (loop.index) arguments.push_back(loop.index);
    for (ValueId argument : arguments) define(argument);
    body(loop.body, [&] {
      for (const auto& c : loop.carries) require_defined(c.leaving, "a loop's carry");
      for (const auto& c : loop.collects) {
        require_defined(c.turn, "a loop's collect");
        turn_type(c.stacked, c.turn, loop.dim);
      }
    });
    for (ValueId argument : arguments) defined_[argument.index] = false;
  }

  const Graph& graph_;
  const char* pass_;
  std::vector<bool> defined_;
};

}  // namespace

void verify_graph(const Graph& graph, const char* pass) { Verifier(graph, pass).run(); }

}  // namespace mesh
