#include "codegen/elaborate/repeat.h"

#include <algorithm>
#include <utility>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/manual.h"
#include "codegen/elaborate/names.h"
#include "codegen/elaborate/state.h"
#include "codegen/elaborate/statements.h"
#include "codegen/elaborate/terms.h"

namespace mesh::elaboration {
namespace {

struct Carry {
  std::string name;
  Span span;  // where it was bound before the loop
  Term initial;
  ValueType type;  // of a carry that starts as a number: found by a trial
  bool from_number = false;
  bool typed = true;    // false in the first trial of a carry that starts as a number: it stands as that number
  bool broken = false;  // its mistake is reported
  ValueId first, entering, leaving;
  Span leaving_span;
};

void add_bound_names(const ast::Body& body, std::vector<ast::Name>& names) {
  for (const ast::Statement& statement : body) {
    if (const auto* bind = std::get_if<ast::Bind>(&statement.node)) {
      for (const ast::Name& name : bind->names)
        if (std::ranges::find(names, name.text, &ast::Name::text) == names.end()) names.push_back(name);
    } else if (const auto* repeat = std::get_if<ast::Repeat>(&statement.node)) {
      add_bound_names(repeat->body, names);
    } else if (const auto* manual = std::get_if<ast::Manual>(&statement.node)) {
      add_bound_names(manual->body, names);
    }
  }
}

/// The names bound before the loop that its body binds again, in the order in which it does.
std::vector<Carry> carries_of(Elaboration& e, Frame& frame, const ast::Repeat& repeat) {
  std::vector<Carry> carries;
  for (const auto& [name, bound_at] : bound_names(repeat.body)) {
    const Binding* binding = find_name(frame, name);
    if (binding == nullptr || binding->kind != Binding::Kind::value) continue;
    Carry carry;
    carry.name = name;
    carry.span = binding->span;
    carry.initial = seen_here(e, frame, *binding, name, binding->span);
    switch (carry.initial.kind) {
      case Term::Kind::poison: carry.broken = true; break;
      case Term::Kind::number:
        carry.from_number = true;
        carry.typed = false;
        carry.type = {default_float(e), {}, {}};
        break;
      case Term::Kind::truth: carry.type = {Type::boolean, {}, {}}; break;
      case Term::Kind::tensor: carry.type = e.type(carry.initial.value); break;
      case Term::Kind::plan:
      case Term::Kind::masked: tensor_of(e, carry.initial, binding->span); carry.broken = true;
    }
    carries.push_back(carry);
  }
  return carries;
}

/// What ends the loop, asked when a turn is over. E0314.
void until_condition(Elaboration& e, Frame& body, const ast::Expr& expr) {
  const Term term = expression(e, body, expr);
  const ValueId done = tensor_of(e, term, expr.span);
  if (!done) return;
  const ValueType& type = e.type(done);
  if (type.element == Type::boolean && type.dims.empty()) {
    e.build.span = expr.span;
    e.build.append(UntilOp{}, {done});
    return;
  }
  auto report = e.error("E0314", expr.span, "`until` needs one truth value");
  report.here(describe(e, term));
  if (type.element != Type::boolean) report.help("a comparison gives one: `until gap < 1e-6`");
  else report.help("reduce first, compare then: `until max[...](x) < 1e-6`");
}

/// Writes the loop's body once; the loop's node is still without carries afterwards. On trial a carry may leave with
/// another type than it entered with.
ClosedLoop write_body(Elaboration& e, Frame& frame, const ast::Repeat& repeat, DimId dim, Span span,
                      std::vector<Carry>& carries, bool trial) {
  const BodyId outer = e.build.body;
  const ast::Name& label = repeat.label ? *repeat.label : repeat.dim;
  Frame body;
  body.outer = &frame;
  body.path = join(frame.path, label.text);
  body.call = join(frame.call, label.text);
  body.dims = frame.dims;
  body.home = frame.home;
  body.block = frame.block;
  for (Carry& carry : carries)
    if (!carry.broken && carry.typed)
      carry.first = as_written(e, carry.initial, carry.type, span, carry.span, "`" + carry.name + "` is", false).value;
  e.build.span = repeat.dim.span;
  const NodeId node = e.build.append(LoopOp{dim, {}, false, {}, {}, {}, {}}, {});
  Loop& loop = e.owned_loops.emplace_back(Loop{node, dim, e.build.new_body(node), label.text, {}, {}});
  std::get<LoopOp>(e.graph.node(node).op).body = loop.body;
  e.loops.push_back(&loop);
  body.home.push_back(&loop);
  e.build.body = loop.body;
  const std::string outer_scope = std::exchange(e.build.scope, body.path);
  const std::string outer_call = std::exchange(e.build.call, body.call);
  for (Carry& carry : carries) {
    Binding binding;
    binding.span = carry.span;
    binding.regions = e.regions.size();
    if (!carry.typed) {
      binding.term = carry.initial;
    } else if (!carry.broken) {
      carry.entering = e.build.argument(carry.type, loop.body, node, join(body.call, carry.name));
      binding.term = Term::of(carry.entering);
    }
    body.names.emplace(carry.name, binding);
  }
  statements(e, body, repeat.body);
  ClosedLoop closed{&loop, {}};
  for (const auto& [name, binding] : body.names)
    if (binding.kind == Binding::Kind::value) closed.names.emplace(name, binding.term);
  for (Carry& carry : carries) {
    const Binding& last = body.names.at(carry.name);
    const Term leaving = seen_here(e, body, last, carry.name, last.span);
    carry.leaving_span = last.span;
    if (carry.broken || leaving.poisoned()) {
      carry.broken = true;
    } else if (trial && carry.from_number) {
      carry.leaving = leaving.is_tensor() ? leaving.value : ValueId{};
    } else {
      const std::string what = fmt::format("carry `{}` begins as", carry.name);
      carry.leaving = as_written(e, leaving, carry.type, last.span, carry.span, what, false, "E0307").value;
      carry.broken = !carry.leaving;
      closed.names.at(carry.name) = carry.broken ? Term::poison() : Term::of(carry.leaving);
    }
  }
  if (repeat.until != nullptr) until_condition(e, body, *repeat.until);
  e.build.scope = outer_scope;
  e.build.call = outer_call;
  e.build.body = outer;
  e.loops.pop_back();
  return closed;
}

/// A carry that starts as a number has the type of what the body binds to it: the body is written on trial, first with
/// the number itself, until the types hold, and taken back each time.
void find_types(Elaboration& e, Frame& frame, const ast::Repeat& repeat, DimId dim, Span span,
                std::vector<Carry>& carries) {
  if (std::none_of(carries.begin(), carries.end(), [](const Carry& c) { return c.from_number; })) return;
  const Graph graph = e.graph;
  const Tables tables = e.tables;
  std::vector<Loop> open;
  for (const Loop* loop : e.loops) open.push_back(*loop);
  DiagnosticSink* const sink = e.sink;
  for (int round = 0; round < 4; ++round) {
    DiagnosticSink unheard;
    e.sink = &unheard;
    std::vector<Carry> trial = carries;
    write_body(e, frame, repeat, dim, span, trial, true);
    bool changed = false;
    for (size_t i = 0; i < carries.size(); ++i) {
      changed = changed || !carries[i].typed;
      carries[i].typed = true;
      if (!carries[i].from_number || !trial[i].leaving) continue;
      const ValueType& found = e.type(trial[i].leaving);
      changed = changed || found != carries[i].type;
      carries[i].type = found;
    }
    e.sink = sink;
    e.graph = graph;
    e.tables = tables;
    for (size_t i = 0; i < open.size(); ++i) *e.loops[i] = open[i];
    if (!changed) return;
  }
}

/// E0312 for carries that have the loop's dim themselves: gathered over turns, as for gradients, they would have it
/// twice.
void require_other_dims(Elaboration& e, const ast::Repeat& repeat, DimId dim, std::vector<Carry>& carries) {
  for (Carry& carry : carries) {
    if (carry.broken || !contains(carry.type.dims, dim)) continue;
    e.error("E0312", carry.span, "`{}` would have dim `{}` twice", carry.name, e.name(dim))
        .here("{}", to_string(e.graph, carry.type))
        .label(repeat.dim.span, fmt::format("the `repeat` adds `{}` to what it carries", e.name(dim)))
        .help(fmt::format("rename it before: `dim other = {0}`, and `{1}[{0} as other]`", e.name(dim), carry.name));
    carry.broken = true;
  }
}

/// Gives the loop's node its operands and results, and the names their values after it.
void close(Elaboration& e, Frame& frame, const ClosedLoop& closed, const std::vector<Carry>& carries) {
  const Loop& loop = *closed.loop;
  LoopOp op = std::get<LoopOp>(e.graph.node(loop.node).op);
  Node node = e.graph.node(loop.node);
  op.slices = loop.slices;
  op.index = loop.index;
  for (const Carry& carry : carries) {
    Binding* binding = find_name(frame, carry.name);
    binding->span = carry.leaving_span;
    binding->regions = e.regions.size();
    if (carry.broken) {
      binding->term = Term::poison();
      continue;
    }
    const ValueId result = e.build.argument(carry.type, e.build.body, loop.node);
    op.carries.push_back({carry.first, carry.entering, carry.leaving, result});
    node.inputs.push_back(carry.first);
    node.results.push_back(result);
    binding->term = Term::of(result);
  }
  for (const LoopOp::Slice& slice : loop.slices) node.inputs.push_back(slice.stacked);
  collect_wanted(e, loop, op, node, e.build.body);
  collect_updates(e, loop, op, node, e.build.body);
  node.op = op;
  e.graph.node(loop.node) = node;
  for (const Carry& carry : carries) record_name(e, join(frame.call, carry.name), find_name(frame, carry.name)->term);
  frame.closed.push_back(closed);
}

}  // namespace

std::vector<ast::Name> bound_names(const ast::Body& body) {
  std::vector<ast::Name> names;
  add_bound_names(body, names);
  return names;
}

void repeat_statement(Elaboration& e, Frame& frame, const ast::Repeat& repeat, Span span) {
  const DimId dim = dim_named(e, *frame.dims, repeat.dim);
  if (!dim) return;
  for (const Loop* open : e.loops) {
    if (open->dim != dim) continue;
    e.error("E0214", repeat.dim.span, "a `repeat` over `{}` inside another", e.name(dim))
        .label(e.graph.node(open->node).span, "the outer one")
        .help(fmt::format("give the inner loop a dim of its own: `dim inner = {}`", e.name(dim)));
    return;
  }
  constexpr size_t deepest = 6;  // carries that start as numbers have each of them written several times
  if (e.loops.size() >= deepest) {
    e.error("E0119", repeat.dim.span, "loops nest more than {} deep", deepest)
        .label(e.graph.node(e.loops.front()->node).span, "the outermost")
        .help("one loop over a merged dim does the turns of two");
    return;
  }
  std::vector<Carry> carries = carries_of(e, frame, repeat);
  find_types(e, frame, repeat, dim, span, carries);
  require_other_dims(e, repeat, dim, carries);
  const ClosedLoop closed = write_body(e, frame, repeat, dim, span, carries, false);
  close(e, frame, closed, carries);
}

ValueId read_stored(Elaboration& e, const Binding& binding) {
  const Stored& stored = e.graph.stored[binding.stored.index];
  ValueId value = stored.value;
  for (Loop* loop : binding.home) {
    const auto known = std::find_if(loop->slices.begin(), loop->slices.end(),
                                    [&](const LoopOp::Slice& slice) { return slice.stacked == value; });
    if (known != loop->slices.end()) {
      value = known->turn;
      continue;
    }
    ValueType type = e.type(value);
    type.dims.erase(type.dims.begin());
    const ValueId turn = e.build.argument(type, loop->body, loop->node, stored.path);
    loop->slices.push_back({value, turn});
    value = turn;
  }
  return value;
}

ValueId loop_index(Elaboration& e, DimId dim) {
  for (Loop* loop : e.loops) {
    if (loop->dim != dim) continue;
    if (!loop->index) loop->index = e.build.argument({Type::i32, {}, {}}, loop->body, loop->node, e.name(dim));
    return loop->index;
  }
  return {};
}

}  // namespace mesh::elaboration
