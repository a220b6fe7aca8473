// emit_collective.cpp: a collective as the call that makes it; its reason before it: emit_reasons.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/emit_parts.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"

namespace mesh {

namespace {

/// The linear index of this rank over the axes: "mesh::index(rank, mesh::data)", major first.
std::string linear_index(EmitContext& context, const std::vector<AxisId>& axes) {
  std::vector<std::pair<std::string, std::string>> indices;
  indices.reserve(axes.size());
  for (const AxisId axis : axes)
    indices.emplace_back("index_on(" + context.names.axis(axis) + ")", context.names.axis(axis) + ".size");
  return axes.empty() ? "0" : horner(indices);
}

}  // namespace

std::string part_table(EmitContext& context, const LocalDim& whole, const std::vector<AxisId>& axes) {
  const MeshShape& mesh = context.mesh();
  const std::string size = context.names.size(whole.dim);
  std::string name = size + "_parts_" + context.group(axes);
  for (const AxisId axis : whole.placement.axes) name += "_of_" + identifier(mesh.axes[axis].name);
  const Deal& deal = whole.placement.deal;
  if (deal) name += std::string("_") + meshrt::name_of(deal.ownership);
  const int64_t members = mesh.size(axes), parts = members * mesh.size(whole.placement.axes);
  std::string first = linear_index(context, whole.placement.axes);
  if (first != "0")
    first = (first.find(' ') == std::string::npos ? first : "(" + first + ")") + fmt::format(" * {}", members);
  const std::string value = fmt::format("meshrt::boundaries<{}>({}, {}, {}{})", members, size, first, parts,
                                        deal ? ", " + deal_expression(deal) : "");
  return context.constant(fmt::format("std::array<int64_t, {}>", members + 1), name, value);
}

namespace {

struct Emitter {
  EmitContext& context;
  const CollectiveStep& step;
  std::span<const LocalDim> before, after;

  std::string product(std::span<const LocalDim> dims, int first, int end) const {
    return context.names.product(dims.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)));
  }
  /// Where the members' parts of what is whole on one side begin, dealt as it is on the other.
  std::string parts(std::span<const LocalDim> whole, std::span<const LocalDim> split, int position) const {
    LocalDim dealt = whole[static_cast<size_t>(position)];
    dealt.placement.deal = split[static_cast<size_t>(position)].placement.deal;
    return part_table(context, dealt, step.axes);
  }
  std::string blocks(std::span<const LocalDim> whole, std::span<const LocalDim> split, int position) const {
    return fmt::format("{{{}, {}, {}}}", product(whole, 0, position), parts(whole, split, position),
                       product(whole, position + 1, static_cast<int>(whole.size())));
  }
  /// The dim between its margins.
  LocalDim own_margins() const { return without_margin(before[static_cast<size_t>(step.from_dim)]); }
  /// Where the members' own parts begin.
  std::string own_parts() const {
    LocalDim dealt = own_margins();
    dealt.placement.axes.clear();  // the group's
    return part_table(context, dealt, step.axes);
  }
  /// {outer, inner, before, after, edge}
  std::string margins() const {
    const Margin& margin = before[static_cast<size_t>(step.from_dim)].placement.margin;
    const Edge& edge = margin.edge;
    const std::string kind = edge.kind == Edge::Kind::wrap ? "{meshrt::Edge::Kind::wrap}"
                             : edge.kind == Edge::Kind::clamp
                                 ? "{meshrt::Edge::Kind::clamp}"
                                 : fmt::format("{{meshrt::Edge::Kind::value, {}}}", edge.value);
    return fmt::format("{{{}, {}, {}, {}, {}}}", product(before, 0, step.from_dim),
                       product(before, step.from_dim + 1, static_cast<int>(before.size())), margin.before, margin.after,
                       kind);
  }
  /// The name of this rank's partners in a permute.
  const std::string& partners() const {
    std::string& name = context.partners[{step.axes, step.to_axes}];
    if (name.empty()) {
      name = context.group(step.axes) + "_to";
      for (const AxisId axis : step.to_axes) name += "_" + identifier(context.mesh().axes[axis].name);
      name = context.names.reserve(name);
    }
    return name;
  }
  std::string split(const DimPlacement& dim) const {
    std::string axes;
    for (const AxisId axis : dim.axes) axes += (axes.empty() ? "" : ", ") + context.names.axis(axis);
    return fmt::format("{{{{{}}}{}}}", axes, dim.deal ? ", " + deal_expression(dim.deal) : "");
  }
  /// The name of what this rank sends and gets where parts are redistributed.
  const std::string& redistribution() const {
    std::string dims, changed, to;
    const auto add = [](std::string& list, const char* between, const std::string& one) {
      list += (list.empty() ? "" : between) + one;
    };
    for (size_t i = 0; i < before.size(); ++i) {
      const DimPlacement &had = before[i].placement, &has = after[i].placement;
      if (had == has) {
        add(dims, ", ", "{" + context.names.extent(before[i]) + "}");
        continue;
      }
      const std::string size = context.names.size(before[i].dim);
      add(dims, ", ", fmt::format("{{{}, {}, {}}}", size, split(had), split(has)));
      add(changed, "_", size);
      for (const AxisId axis : has.axes)
        if (had.axes != has.axes) add(to, "_", identifier(context.mesh().axes[axis].name));
      if (had.deal != has.deal && (has.deal || had.axes == has.axes)) add(to, "_", meshrt::name_of(has.deal.ownership));
    }
    const std::string group = step.axes.empty() ? "rank.group({})" : context.group(step.axes);
    std::string& name = context.redistributions[fmt::format("{}, {{{}}}", group, dims)];
    if (name.empty()) name = context.names.reserve(changed + "_to_" + (to.empty() ? "whole" : to));
    return name;
  }
  /// Whole dims of the exchange: from the side that holds each.
  std::string exchange() const {
    const bool gathers_first = step.from_dim < step.to_dim;
    const int first = std::min(step.from_dim, step.to_dim), second = std::max(step.from_dim, step.to_dim);
    // What is gathered is whole after, what is split was whole before.
    const std::string from = parts(after, before, step.from_dim), to = parts(before, after, step.to_dim);
    return fmt::format("{{{}, {}, {}, {}, {}, {}}}", product(before, 0, first), gathers_first ? from : to,
                       product(before, first + 1, second), gathers_first ? to : from,
                       product(before, second + 1, static_cast<int>(before.size())), gathers_first ? "true" : "false");
  }
};

/// `rank, over_data, {1, "d_wte"}`: what every call begins with.
std::string head_of(EmitContext& context, const CollectiveStep& step, Span span) {
  const Buffer& buffer = context.program.buffer(step.to.buffer);
  return fmt::format("rank, {}, {{{}, {}}}", context.group(step.axes, makers(step.kind, step.at)), context.site(span),
                     string_literal(buffer.path.empty() ? buffer.name : buffer.path));
}

/// The kind and what it makes: "all_gather_wq", "all_reduce_gradients".
std::string plan_name(const EmitContext& context, std::span<const CollectiveStep> call) {
  const auto all_of = [&](BufferKind kind) {
    return call.size() > 1 && std::ranges::all_of(call, [&](const CollectiveStep& one) {
             return context.program.buffer(one.from.buffer).kind == kind;
           });
  };
  const std::string made = all_of(BufferKind::gradient)    ? "gradients"
                           : all_of(BufferKind::parameter) ? "parameters"
                                                           : context.names.buffer(call.front().to.buffer);
  return std::string(name_of(call.front().kind)) + "_" + made;
}

/// The loops by whose turns the buffers of a call are indexed, or that say where a value lies, outermost first.
std::vector<LoopId> loops_of(const EmitContext& context, std::span<const CollectiveStep> call) {
  std::vector<LoopId> loops;
  for (const LoopId loop : context.loops)
    if (std::ranges::any_of(call, [&](const CollectiveStep& one) {
          if (one.at.owner && one.at.owner.dim == context.names.loop_dim(loop)) return true;
          return std::ranges::count(one.from.turns, loop, &TurnIndex::loop) +
                     std::ranges::count(one.to.turns, loop, &TurnIndex::loop) >
                 0;
        }))
      loops.push_back(loop);
  return loops;
}

/// "[m][l]" of something for each of the loops.
template <class Text>
std::string indices(const std::vector<LoopId>& loops, Text text) {
  std::string all;
  for (const LoopId loop : loops) all += "[" + text(loop) + "]";
  return all;
}

/// The plan of a call, as it stands in a function: "all_gather_wq", "all_gather_wq[l]".
std::string planned(EmitContext& context, std::span<const CollectiveStep> call, const std::string& text) {
  const std::vector<LoopId> loops = loops_of(context, call);
  auto known = std::ranges::find_if(context.plans,
                                    [&](const EmittedPlan& plan) { return plan.call == text && plan.loops == loops; });
  if (known == context.plans.end())
    known = context.plans.insert(known, {context.names.reserve(plan_name(context, call)), text, loops});
  return known->name + indices(loops, [&](LoopId loop) { return context.turn(loop); });
}

/// What is done with a plan.
const char* action_of(CollectiveStep::Phase phase) {
  switch (phase) {
    case CollectiveStep::Phase::whole: return "run";
    case CollectiveStep::Phase::start: return "start";
    case CollectiveStep::Phase::wait: return "wait";
  }
  return "";
}

/// What is planned stands outside of the loops' bodies, without their variables.
class OutsideOfLoops {
 public:
  explicit OutsideOfLoops(EmitContext& context)
      : context_(context),
        slots_(std::exchange(context.slots, {})),
        other_turns_(std::exchange(context.other_turns, {})) {}
  ~OutsideOfLoops() {
    context_.slots = std::move(slots_);
    context_.other_turns = std::move(other_turns_);
  }
  OutsideOfLoops(const OutsideOfLoops&) = delete;
  OutsideOfLoops& operator=(const OutsideOfLoops&) = delete;

 private:
  EmitContext& context_;
  std::map<LoopId, int64_t> slots_;
  std::map<LoopId, std::string> other_turns_;
};

/// Of one value, what plans its movement.
std::string plan_call(EmitContext& context, const CollectiveStep& step, Span span) {
  const OutsideOfLoops outside(context);
  const Emitter emitter{context, step, dims_of(context.program, step.from), dims_of(context.program, step.to)};
  const std::string from = address(context, step.from), to = address(context, step.to);
  const std::string head = head_of(context, step, span), type = type_text(context.program.buffer(step.to.buffer));
  const std::string reduce = fmt::format("Reduce::{}", meshrt::name_of(step.reduce));
  switch (step.kind) {
    case CollectiveKind::all_reduce:
      return fmt::format("plan_all_reduce({}, {}, {}, {}, {})", head, to, elements(context, step.to), type, reduce);
    case CollectiveKind::reduce_scatter:
      return fmt::format("plan_reduce_scatter({}, {}, {}, {}, {}, {})", head, from, to,
                         emitter.blocks(emitter.before, emitter.after, step.to_dim), type, reduce);
    case CollectiveKind::all_gather:
      return fmt::format("plan_all_gather({}, {}, {}, {}, {})", head, from, to,
                         emitter.blocks(emitter.after, emitter.before, step.from_dim), type);
    case CollectiveKind::all_to_all:
      return fmt::format("plan_all_to_all({}, {}, {}, {}, {})", head, from, to, emitter.exchange(), type);
    case CollectiveKind::permute:
      return fmt::format("plan_permute({}, {}, {}, {}.to, {}, {}, {}.from, {})", head, from,
                         elements(context, step.from), emitter.partners(), to, elements(context, step.to),
                         emitter.partners(), type);
    case CollectiveKind::redistribute:
      return fmt::format("plan_redistribute({}, {}, {}, {}, {})", head, from, to, emitter.redistribution(), type);
    case CollectiveKind::halo:
      return fmt::format("plan_exchange_margins({}, {}, {}, {}, {})", head, to, emitter.own_parts(), emitter.margins(),
                         type);
    case CollectiveKind::broadcast:
      return fmt::format("plan_broadcast({}, {}, {}, {}, {}, {})", head, from, to, elements(context, step.to), type,
                         coordinate(context, step.at));
    case CollectiveKind::reduce:
      return fmt::format("plan_reduce({}, {}, {}, {}, {}, {}, {})", head, from, to, elements(context, step.from), type,
                         reduce, coordinate(context, step.at));
    case CollectiveKind::ring:  // within the step that works on the parts
    case CollectiveKind::slice:
    case CollectiveKind::term: break;
  }
  internal_error(std::string("the emitter has no ") + name_of(step.kind));
}

/// Of several values, the same.
std::string plan_call(EmitContext& context, const CombinedStep& step, Span span) {
  const OutsideOfLoops outside(context);
  const CollectiveStep& first = step.collectives.front();
  const bool gathers = first.kind == CollectiveKind::all_gather;
  std::string call = fmt::format("plan_{}({}, {}", name_of(first.kind), head_of(context, first, span),
                                 type_text(context.program.buffer(first.to.buffer)));
  if (!gathers) call += fmt::format(", Reduce::{}", meshrt::name_of(first.reduce));
  for (const CollectiveStep& one : step.collectives) {
    const Emitter emitter{context, one, dims_of(context.program, one.from), dims_of(context.program, one.to)};
    const std::string from = address(context, one.from), to = address(context, one.to);
    if (first.kind == CollectiveKind::all_reduce)
      call += fmt::format(", Whole{{{}, {}}}", to, elements(context, one.to));
    else if (gathers)
      call += fmt::format(", Gathered{{{}, {}, {}}}", from, to,
                          emitter.blocks(emitter.after, emitter.before, one.from_dim));
    else
      call +=
          fmt::format(", Scattered{{{}, {}, {}}}", from, to, emitter.blocks(emitter.before, emitter.after, one.to_dim));
  }
  return call + ")";
}

/// What a rank does by itself, as it holds all of the dim.
std::string own_call(EmitContext& context, const CollectiveStep& step) {
  const Emitter emitter{context, step, dims_of(context.program, step.from), dims_of(context.program, step.to)};
  const std::string to = address(context, step.to), type = type_text(context.program.buffer(step.to.buffer));
  if (step.kind == CollectiveKind::redistribute)
    return fmt::format("meshrt::reorder({}, {}, {}, {});", address(context, step.from), to, emitter.redistribution(),
                       type);
  return fmt::format("meshrt::fill_margins({}, {}, {}, {});", to, context.names.extent(emitter.own_margins()),
                     emitter.margins(), type);
}

Span first_span(const Step& step) { return step.spans.empty() ? Span{} : step.spans.front(); }

}  // namespace

std::string plan_of(EmitContext& context, const Step& step) {
  const Span span = first_span(step);
  const auto* several = std::get_if<CombinedStep>(&step.what);
  const std::string call =
      several ? plan_call(context, *several, span) : plan_call(context, std::get<CollectiveStep>(step.what), span);
  return planned(context, movements(step), call);
}

void emit_collective(EmitContext& context, CppWriter& out, const Step& step) {
  const auto moved = movements(step);
  const CollectiveStep& first = moved.front();
  if (first.axes.empty()) {
    if (first.kind == CollectiveKind::redistribute)
      out.comment("  " + context.program.sharded.steps[first.step].reason);
    return out.line(own_call(context, first));
  }
  emit_reasons(context, out, step);
  const OfItsTurn turn(context, moved);
  out.line(fmt::format("{}{}.{}();", turn.where, plan_of(context, step), action_of(first.phase)));
}

void emit_plans(EmitContext& context, CppWriter& out) {
  if (context.plans.empty()) return;
  const auto turns = [&](LoopId loop) { return context.names.size(context.names.loop_dim(loop)); };
  const auto turn = [&](LoopId loop) { return context.names.turn(loop); };
  std::map<std::string, std::vector<std::string>> declared;  // by type
  std::map<std::vector<LoopId>, std::vector<const EmittedPlan*>> by_loops;
  for (const EmittedPlan& plan : context.plans) {
    declared[plan.type].push_back(plan.name + indices(plan.loops, turns));
    by_loops[plan.loops].push_back(&plan);
  }
  out.blank();
  out.comment("Collectives, each planned once.");
  for (const auto& [type, names] : declared) out.declare(type, names);
  const auto function = out.block("void plan_collectives()");
  for (const auto& [loops, plans] : by_loops) {
    std::deque<CppWriter::Block> around;
    for (const LoopId loop : loops)
      around.emplace_back(out, fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0})", turn(loop), turns(loop)), "");
    for (const EmittedPlan* plan : plans) out.line(plan->name + indices(loops, turn) + " = " + plan->call + ";");
    while (!around.empty()) around.pop_back();
  }
}

}  // namespace mesh
