#include "codegen/elaborate/collect.h"

#include <algorithm>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/items.h"
#include "codegen/elaborate/terms.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

/// The loops over the dim that have ended where the frame stands, the last one first.
std::vector<const ClosedLoop*> ended(const Frame& frame, DimId dim) {
  std::vector<const ClosedLoop*> loops;
  for (const Frame* at = &frame; at != nullptr; at = at->outer)
    for (auto one = at->closed.rbegin(); one != at->closed.rend(); ++one)
      if (one->loop->dim == dim) loops.push_back(&*one);
  return loops;
}

/// E0201 for the name of a loop where its dim belongs: `repeat layer as decoder` is collected by `layer`.
bool is_label(Elaboration& e, const Frame& frame, const ast::Item& item) {
  if (item.kind() != ast::ItemKind::dim || item.pick.kind != ast::Pick::Kind::one) return false;
  const std::string& name = item.pick.name().text;
  if (find_dim(e, *frame.dims, name)) return false;
  for (const Frame* at = &frame; at != nullptr; at = at->outer)
    for (const ClosedLoop& one : at->closed) {
      if (one.loop->label != name) continue;
      const std::string& dim = e.name(one.loop->dim);
      e.error("E0201", item.span, "`{}` is the name of a loop over `{}`, not a dim", name, dim)
          .label(e.graph.node(one.loop->node).span, "the loop")
          .help(fmt::format("`collect` takes the dim: `[{}]`", dim))
          .fix(item.span, dim);
      return true;
    }
  return false;
}

Term none_has_ended(Elaboration& e, const ast::Call& call, DimId dim) {
  const std::string& name = e.name(dim);
  const auto open = std::find_if(e.loops.begin(), e.loops.end(), [&](const Loop* one) { return one->dim == dim; });
  auto report =
      e.error("E0217", call.callee.span, "`collect[{}]` stands before the end of a loop over `{}`", name, name);
  if (open != e.loops.end())
    report.label(e.graph.node((*open)->node).span, "this one goes on")
        .help("write it after the closing `}` of the `repeat`: it gathers what all turns gave");
  else report.here("no `repeat {}` has ended here", name);
  return Term::poison();
}

Term not_bound(Elaboration& e, const ast::Name& name, const std::vector<const ClosedLoop*>& loops) {
  const Loop& last = *loops.front()->loop;
  auto report = e.error("E0217", name.span, "`repeat {}` binds no `{}`", e.name(last.dim), name.text);
  std::vector<std::string> known;
  for (const auto& [bound, term] : loops.front()->names) known.push_back(bound);
  if (const auto near = did_you_mean(name.text, known)) report.here("did you mean `{}`?", *near);
  else if (!known.empty()) report.note("names that it binds: " + quoted(known));
  report.label(e.graph.node(last.node).span, "the loop");
  return Term::poison();
}

/// The same value for every turn, where the body did not make it.
ValueId repeated(Elaboration& e, ValueId value, DimId dim) {
  std::vector<DimId> order = e.type(value).dims;
  order.insert(order.begin(), dim);
  return e.build.in_order(e.build.broadcast(value, std::vector<DimId>{dim}), order);
}

ValueId stacked(Elaboration& e, const Loop& loop, ValueId turn) {
  Node& node = e.graph.node(loop.node);
  for (const LoopOp::Collect& known : std::get<LoopOp>(node.op).collects)
    if (known.turn == turn) return known.stacked;
  ValueType type = e.type(turn);
  type.dims.insert(type.dims.begin(), loop.dim);
  const ValueId stack = e.build.argument(type, node.body, loop.node);
  std::get<LoopOp>(node.op).collects.push_back({turn, stack});
  node.results.push_back(stack);
  return stack;
}

}  // namespace

Term collect(Elaboration& e, Frame& frame, const ast::Call& call, Span span) {
  const ast::Path* path = call.arguments.size() == 1 && !call.arguments[0].name
                              ? ast::as<ast::Path>(ast::without_parentheses(*call.arguments[0].value))
                              : nullptr;
  if (path == nullptr || !path->simple() || call.items.size() != 1) {
    e.error("E0310", span, "`collect` takes the dim of a loop and a name that the loop's body binds")
        .help("`collect[layer](h)`, after `repeat layer { ... h = ... }`");
    return Term::poison();
  }
  if (is_label(e, frame, call.items[0])) return Term::poison();
  const auto dims = listed_dims(e, frame, call.items, "`collect`");
  if (!dims) return Term::poison();
  if (dims->size() != 1) {
    e.error("E0310", call.items[0].span, "`collect` takes one dim in brackets").here("{} are given", dims->size());
    return Term::poison();
  }
  const DimId dim = dims->front();
  const ast::Name& name = path->parts.front();
  const std::vector<const ClosedLoop*> loops = ended(frame, dim);
  if (loops.empty()) return none_has_ended(e, call, dim);
  const auto one = std::find_if(loops.begin(), loops.end(),
                                [&](const ClosedLoop* closed) { return closed->names.count(name.text) > 0; });
  if (one == loops.end()) return not_bound(e, name, loops);
  const Loop& loop = *(*one)->loop;
  const ValueId turn = tensor_of(e, (*one)->names.at(name.text), name.span);
  if (!turn) return Term::poison();
  if (contains(e.type(turn).dims, dim)) {
    e.error("E0312", span, "the value would have dim `{}` twice", e.name(dim))
        .label(name.span, to_string(e.graph, e.type(turn)));
    return Term::poison();
  }
  e.build.span = span;
  return Term::of(e.graph.value(turn).body == loop.body ? stacked(e, loop, turn) : repeated(e, turn, dim));
}

}  // namespace mesh::elaboration
