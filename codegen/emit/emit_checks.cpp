#include "codegen/emit/emit_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"

namespace mesh {

namespace {

struct MadeBy {
  std::vector<Access> operator()(const Nest& nest) const {
    std::vector<Access> made;
    for (const Pass& pass : nest.passes) {
      for (const Pass::Store& store : pass.stores) made.push_back(store.to);
      for (const Pass::Accumulate& one : pass.accumulates) made.push_back(one.to);
    }
    return made;
  }
  std::vector<Access> operator()(const ProductStep& product) const {
    return {product.epilogue.rounded_alone ? *product.epilogue.rounded : product.c};
  }
  std::vector<Access> operator()(const AttentionStep& attention) const {
    return attention.backward ? std::vector{attention.d_q, attention.d_k, attention.d_v} : std::vector{attention.out};
  }
  std::vector<Access> operator()(const TakeStep& take) const { return {take.out}; }
  std::vector<Access> operator()(const ScatterStep& scatter) const { return {scatter.table}; }
  std::vector<Access> operator()(const DefinedStep& step) const { return step.writes; }
  // A collective that is under way has made nothing yet.
  std::vector<Access> operator()(const CollectiveStep& one) const {
    return one.phase == CollectiveStep::Phase::start ? std::vector<Access>{} : std::vector{one.to};
  }
  std::vector<Access> operator()(const CombinedStep& combined) const {
    std::vector<Access> made;
    for (const CollectiveStep& one : combined.collectives)
      if (one.phase != CollectiveStep::Phase::start) made.push_back(one.to);
    return made;
  }
  std::vector<Access> operator()(const CopyStep&) const { return {}; }
  std::vector<Access> operator()(const FillStep&) const { return {}; }
  std::vector<Access> operator()(const MessageStep&) const { return {}; }
  std::vector<Access> operator()(const UntilStep&) const { return {}; }
  template <HasBodies Kind>
  std::vector<Access> operator()(const Kind&) const {
    return {};  // its own steps do
  }
};

/// What a step makes: whole values, whose places it writes one by one. What was only moved, or filled with a number of
/// the spec, is what it was.
std::vector<Access> made_by(const Step& step) { return std::visit(MadeBy{}, step.what); }

/// Numbers that stand side by side in memory.
struct CheckedNumbers {
  std::string first, count;
};

CheckedNumbers whole(EmitContext& context, const Access& access) {
  return {address(context, access), elements(context, access)};
}

std::string check(EmitContext& context, Span span, const std::string& name, const CheckedNumbers& numbers,
                  const std::string& turns = "") {
  return fmt::format("meshrt::check_finite(rank, {{{}, {}}}, {}, {}{});", context.site(span), string_literal(name),
                     numbers.first, numbers.count, turns.empty() ? "" : ", {" + turns + "}");
}

/// Of a turn's slot along a dim that others stand in front of: a stretch for each element of these.
struct CheckedSlot {
  std::string loop;  // over them; empty: there is one
  CheckedNumbers each;
};

CheckedSlot stretches(EmitContext& context, Scope& scope, const Access& access) {
  if (access.maps.empty()) return {"", whole(context, access)};
  const IndexMap& map = access.maps.front();  // the only one: a step takes turns of one loop
  const std::span<const LocalDim> dims = context.program.buffer(access.buffer).dims;
  const std::string index = scope.fresh("stretch"), slots = context.names.extent(dims[map.position]),
                    count = context.names.product(dims.subspan(map.position + 1)),
                    times = context.names.product(dims.first(map.position).subspan(access.turns.size()));
  const std::string at = horner({{index, times}, {slot(context, access, {map.position, map.turn}), slots}}, count);
  return {fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0})", index, times),
          {address(context, access) + " + " + at, count}};
}

/// Whether only a part of it is ever made.
bool is_bounded(const Program& program, const Buffer& buffer) {
  return std::ranges::any_of(program.routines, [&](const Routine& routine) {
    return std::ranges::any_of(routine.bounds, [&](const RoutineBound& bound) {
      return std::ranges::count(buffer.dims, bound.dim, &LocalDim::dim) > 0;
    });
  });
}

bool is_float(const Buffer& buffer) {
  return buffer.type == meshrt::Type::f32 || buffer.type == meshrt::Type::f64 || is_narrow(buffer.type);
}

/// Where the loss is scaled gradients may be infinite: such a step is skipped, and leads no further.
bool may_be_infinite(const Graph& graph, Part part) {
  const bool scaled = graph.objective && graph.objective->scaling;
  return scaled && part != Part::forward && part != Part::recompute;
}

}  // namespace

void check_stored(EmitContext& context, CppWriter& out) {
  for (uint32_t id = 0; id < context.program.buffers.size(); ++id) {
    const Buffer& buffer = context.program.buffers[id];
    if (buffer.stored && !buffer.view_of && is_float(buffer))
      out.line(check(context, context.graph().stored[buffer.stored.index].span, buffer.path, whole(context, {id, {}})));
  }
}

void check_made(EmitContext& context, CppWriter& out, Scope& scope, const Step& step) {
  if (may_be_infinite(context.graph(), step.part)) return;
  std::set<std::string> seen;
  const OfItsTurn turn(context, movements(step));
  std::string turns;
  for (const LoopId loop : context.loops)
    turns += fmt::format("{}{{{}, {}}}", turns.empty() ? "" : ", ",
                         string_literal(context.graph().dim(context.names.loop_dim(loop)).name), context.turn(loop));
  for (const Access& access : made_by(step)) {
    const Buffer& buffer = context.program.buffer(access.buffer);
    // Metrics after the loss are shown and lead no further: `exp(loss)` may be infinite while all is well.
    const std::vector<BufferId>& metrics = context.program.step().results;
    const auto metric = std::find(metrics.begin(), metrics.end(), access.buffer);
    if (metric != metrics.begin() && metric != metrics.end()) continue;
    // Of a place that is written in parts the rest holds what was there before.
    const auto is_part = [](const IndexMap& map) { return !map.turn; };
    if (!is_float(buffer) || std::ranges::any_of(access.maps, is_part) || is_bounded(context.program, buffer)) continue;
    // A copy that is kept for the gradient stands for what it is of.
    std::string name = buffer.path.empty() ? buffer.name : buffer.path;
    if (name.ends_with(".stash") || name.ends_with("_stash")) name.resize(name.size() - 6);
    const Span span = step.spans.empty() ? buffer.span : step.spans.back();
    const CheckedSlot made = stretches(context, scope, access);
    const std::string line = turn.where + check(context, span, name, made.each, turns);
    if (!seen.insert(line).second) continue;
    if (made.loop.empty()) out.line(line);
    else out.one(made.loop, line);
  }
}

}  // namespace mesh
