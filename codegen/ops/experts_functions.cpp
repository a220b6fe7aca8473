// Experts: tokens are brought to their experts and back by index. A plan says which; tokens are grouped by parts, each
// of which deals out its own slots, so that a part is routed where it lies.
#include <algorithm>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/operators.h"
#include "codegen/elaborate/routing_plan.h"
#include "codegen/elaborate/terms.h"
#include "codegen/ops/combine.h"
#include "codegen/ops/route.h"
#include "codegen/ops/sort.h"

namespace mesh::elaboration {

std::vector<DimId> RoutingPlan::choices(const Elaboration& e) const {
  return missing_from(tokens, e.type(chosen).dims);
}

namespace functions {
namespace {

using F = MapFunction;

/// Views that make [part, token] of the tokens' dims, and back. Where parts are the first dim, or divide it, no other
/// dim is touched: a rank that has some of it has whole parts.
class Grouping {
 public:
  Grouping(Elaboration& e, const RoutingPlan& plan) : e_(e) { find_views(plan, plan.tokens); }

  DimId token() const { return token_; }

  ValueId grouped(ValueId value) const {
    for (const View& view : views_) value = made(value, view.from, view.to);
    return value;
  }
  ValueId ungrouped(ValueId value) const {
    for (auto view = views_.rbegin(); view != views_.rend(); ++view) value = made(value, view->to, view->from);
    return value;
  }

 private:
  struct View {
    std::vector<DimId> from, to;  // one on either side
  };

  void find_views(const RoutingPlan& plan, std::vector<DimId> dims) {
    Elaboration& e = e_;
    int64_t count = 1;
    for (const DimId dim : dims) count *= e.size(dim);
    const int64_t parts = plan.part ? e.size(plan.part) : 1;
    token_ = twin(e, dims.back(), "_of_part", count / parts);
    if (!plan.part) return gather(dims, token_);
    const int64_t first = e.size(dims[0]);
    if (first == parts && dims.size() > 1) {
      gather({dims[0]}, plan.part);
      return gather({dims.begin() + 1, dims.end()}, token_);
    }
    if (first % parts == 0) {
      const DimId rest = dims.size() > 1 ? twin(e, dims[0], "_in_part", first / parts) : token_;
      split(dims[0], {plan.part, rest});
      dims[0] = rest;
      if (dims.size() > 1) gather(dims, token_);
      return;
    }
    if (parts % first == 0 && dims.size() > 1 && e.size(dims[1]) % (parts / first) == 0) {
      const int64_t more = parts / first;
      const DimId outer = twin(e, dims[1], "_parts", more),
                  inner = twin(e, dims[1], "_in_part", e.size(dims[1]) / more);
      split(dims[1], {outer, inner});
      gather({dims[0], outer}, plan.part);
      dims.erase(dims.begin());
      dims[0] = inner;
      return gather(dims, token_);
    }
    const DimId all = twin(e, dims.back(), "_all", count);
    gather(dims, all);
    split(all, {plan.part, token_});
  }

  void gather(const std::vector<DimId>& from, DimId to) { views_.push_back({from, {to}}); }
  void split(DimId from, const std::vector<DimId>& to) { views_.push_back({{from}, to}); }

  ValueId made(ValueId value, const std::vector<DimId>& from, const std::vector<DimId>& to) const {
    if (from.size() == 1 && to.size() == 1) return e_.build.rename(value, from[0], to[0]);
    if (from.size() == 1) return e_.build.value(SplitOp{from[0], to}, {value});
    return e_.build.value(MergeOp{from, to[0]}, {value});
  }

  Elaboration& e_;
  std::vector<View> views_;
  DimId token_;
};

/// A plan as indices, by groups.
struct Routed {
  Grouping grouping;
  DimId seats;     // the slots of all experts
  ValueId seat;    // tokens choose: index(seats)[part, token, choices..]; -1: none
  ValueId source;  // index(token)[part, seats]; -1: none
  ValueId weight;  // experts choose: [part, seats]
};

/// A token's choices as one dim, for the op: several are counted as one.
DimId one_choice(Elaboration& e, const std::vector<DimId>& choices, ValueId& chosen, ValueId& weight) {
  if (choices.size() < 2) return choices.empty() ? DimId{} : choices[0];
  int64_t count = 1;
  for (const DimId dim : choices) count *= e.size(dim);
  const DimId one = twin(e, choices[0], "_choices", count);
  for (ValueId* value : {&chosen, &weight}) *value = e.build.value(MergeOp{choices, one}, {*value});
  return one;
}

Routed routed_by_call(Elaboration& e, const RoutingPlan& plan, Span span) {
  e.build.span = span;
  const DimId seats = twin(e, plan.slot, "_of_all", e.size(plan.expert) * e.size(plan.slot));
  Routed result{Grouping(e, plan), seats, {}, {}, {}};
  const DimId token = result.grouping.token();
  if (plan.experts_choose()) {
    // Under other names: experts may lie elsewhere than who chooses for them.
    const DimId expert = twin(e, plan.expert, "_choosing"), slot = twin(e, plan.slot, "_chosen");
    const ValueId share = result.grouping.grouped(e.build.rename(plan.weight, plan.expert, expert));
    const NodeId best = e.build.append(Sort{token, slot, true}.op(), {share});
    const std::vector<ValueId> results = e.graph.node(best).results;
    std::vector<DimId> order;
    if (plan.part) order.push_back(plan.part);
    order.push_back(seats);
    const auto by_seat = [&](ValueId value) {
      return e.build.in_order(e.build.value(MergeOp{{expert, slot}, seats}, {value}), order);
    };
    result.weight = by_seat(results[0]);
    result.source = by_seat(results[1]);
    return result;
  }
  const std::vector<DimId> choices = plan.choices(e);
  ValueId chosen = result.grouping.grouped(plan.chosen), weight = result.grouping.grouped(plan.weight);
  const DimId choice = one_choice(e, choices, chosen, weight);
  std::vector<ValueId> operands{chosen};
  if (plan.largest_first) operands.push_back(weight);
  const NodeId node =
      e.build.append(Route{token, choice, plan.expert, plan.slot, seats, plan.once}.op(), std::move(operands));
  result.seat = e.graph.node(node).results[0];
  if (choices.size() > 1) result.seat = e.build.value(SplitOp{choice, choices}, {result.seat});
  result.source = e.graph.node(node).results[1];
  return result;
}

/// The plan among the arguments; E0310 where it is none.
RoutingPlan* plan_argument(Elaboration& e, const CallSite& site, size_t i) {
  const Term& term = site.arguments[i];
  if (term.is_plan()) return term.plan.get();
  if (!term.poisoned())
    e.error("E0310", site.spans[i], "{} takes a plan of `route`", site.name).here("this is {}", describe(e, term));
  return nullptr;
}

/// E0310 where a plan is asked for what only its tokens' dims tell.
bool knows_tokens(Elaboration& e, const CallSite& site, size_t i, const RoutingPlan& plan) {
  if (!plan.tokens.empty()) return true;
  e.error("E0310", site.spans[i], "nothing has been dispatched by this plan yet")
      .label(plan.span, "made here")
      .help("`dispatch(x, plan)` before it says which dims of the choices are those of tokens");
  return false;
}

/// E0312 where a value has a dim already that an op gives it.
bool lacks(Elaboration& e, const CallSite& site, size_t i, ValueId value, const std::vector<DimId>& dims) {
  for (const DimId dim : dims) {
    if (!dim || !contains(e.type(value).dims, dim)) continue;
    e.error("E0312", site.spans[i], "{}: the value would have dim `{}` twice", site.name, e.name(dim))
        .here(describe(e, site.arguments[i]));
    return false;
  }
  return true;
}

/// E0305 where the parts are not equal.
bool divides(Elaboration& e, const CallSite& site, const RoutingPlan& plan) {
  if (!plan.part) return true;
  int64_t count = 1;
  std::string product;
  for (const DimId dim : plan.tokens) {
    count *= e.size(dim);
    product += fmt::format("{}{}", product.empty() ? "" : " * ", e.name(dim));
  }
  if (count % e.size(plan.part) == 0) return true;
  e.error("E0311", site.spans[0], "{} tokens are no {} equal parts", count, e.size(plan.part))
      .here("{} = {}", product, count)
      .label(plan.span, "{} = {}", e.name(plan.part), e.size(plan.part))
      .help(fmt::format("let `{}` divide {}", e.name(plan.part), product));
  return false;
}

/// Outside of training and of evaluation no token stands in another one's way: each goes to all experts.
bool without_slots(const Elaboration& e, const RoutingPlan& plan) {
  return e.options.purpose.kind == Purpose::Kind::generate && !plan.experts_choose();
}

/// The first choice of several alternatives.
ValueId first_choice(Elaboration& e, const std::vector<DimId>& choices, ValueId value) {
  for (const DimId dim : choices) value = e.build.value(SliceOp{dim, {}, 0, 1}, {value});
  return value;
}

}  // namespace

/// `route[expert, slot, part](chosen, weight)`: tokens choose; `route[expert, slot, part](share)`: experts do.
Term route(Elaboration& e, CallSite& site) {
  if (site.dims.size() < 2 || site.dims.size() > 3) {
    e.error("E0310", site.span, "`route` takes two or three dims in brackets")
        .help("`route[expert, slot, part](...)`: experts, the slots that each has for a part of the tokens, the parts")
        .help("without `part` all tokens are one");
    return Term::poison();
  }
  const auto overflow = word_option(e, site, "overflow", {"drop", "next"});
  const auto first = word_option(e, site, "first", {"earliest", "largest"});
  if (!overflow || !first) return Term::poison();
  auto plan = std::make_shared<RoutingPlan>();
  plan->expert = site.dims[0];
  plan->slot = site.dims[1];
  if (site.dims.size() == 3) plan->part = site.dims[2];
  plan->span = site.span;
  plan->once = *overflow == "next";
  plan->largest_first = *first == "largest";
  if (site.arguments.size() == 1) {
    plan->weight = tensor_with(e, site, plan->expert, site.dim_spans[0]);
    if (!plan->weight || !is_numeric(e, plan->weight, site.spans[0], site.name)) return Term::poison();
    if (!site.words.empty()) {
      e.error("E0310", site.words.begin()->second.second, "`{}:` is for tokens that choose experts",
              site.words.begin()->first)
          .label(site.spans[0], "of these shares experts choose their tokens")
          .help("`route[expert, slot](chosen, weight)` has each token go where `chosen` says");
      return Term::poison();
    }
    for (const DimId dim : e.type(plan->weight).dims)
      if (dim != plan->expert) plan->tokens.push_back(dim);
    if (!divides(e, site, *plan) || !lacks(e, site, 0, plan->weight, {plan->slot, plan->part})) return Term::poison();
    int64_t count = 1;
    for (const DimId dim : plan->tokens) count *= e.size(dim);
    if (plan->part) count /= e.size(plan->part);
    if (e.size(plan->slot) > count) {
      e.error("E0311", site.dim_spans[1], "an expert has {} slots for {} tokens", e.size(plan->slot), count)
          .label(site.spans[0], describe(e, site.arguments[0]))
          .help(fmt::format("as many as there are at most: `dim {} = min({}, ...)`", e.name(plan->slot), count));
      return Term::poison();
    }
    return Term::planned(std::move(plan));
  }
  plan->chosen = index_argument(e, site, 0, plan->expert);
  if (!plan->chosen) return Term::poison();
  if (!lacks(e, site, 0, plan->chosen, {plan->expert, plan->slot, plan->part})) return Term::poison();
  const ValueType chosen = e.type(plan->chosen);
  const ValueId weight = tensor_of(e, site.arguments[1], site.spans[1]);
  if (!weight || !is_numeric(e, weight, site.spans[1], site.name)) return Term::poison();
  if (!contains_all(chosen.dims, e.type(weight).dims)) {
    e.error("E0303", site.spans[1], "`route`: the choices lack {}",
            quoted(e, missing_from(chosen.dims, e.type(weight).dims)))
        .here(describe(e, site.arguments[1]))
        .label(site.spans[0], describe(e, site.arguments[0]))
        .help("a weight says what a token's choice counts: it has no other dims than the choices");
    return Term::poison();
  }
  e.build.span = site.span;
  const auto missing = missing_from(e.type(weight).dims, chosen.dims);
  plan->weight = e.build.in_order(e.build.broadcast(weight, missing), chosen.dims);
  return Term::planned(std::move(plan));
}

/// x[tokens.., ..] -> [part, expert, slot, ..]; an empty slot is zero.
Term dispatch(Elaboration& e, CallSite& site) {
  RoutingPlan* plan = plan_argument(e, site, 1);
  const ValueId x = tensor_of(e, site.arguments[0], site.spans[0]);
  if (plan == nullptr || !x) return Term::poison();
  const std::vector<DimId> dims = e.type(x).dims;
  if (!plan->experts_choose()) {
    std::vector<DimId> shared;
    for (const DimId dim : e.type(plan->chosen).dims)
      if (contains(dims, dim)) shared.push_back(dim);
    if (shared.empty() || (!plan->tokens.empty() && shared != plan->tokens)) {
      e.error("E0304", site.spans[0], "`dispatch`: the value lacks the tokens' dims {}",
              quoted(e, plan->tokens.empty() ? e.type(plan->chosen).dims : plan->tokens))
          .here(describe(e, site.arguments[0]))
          .label(plan->span, "the plan is made here");
      return Term::poison();
    }
    plan->tokens = shared;
  } else if (!contains_all(dims, plan->tokens)) {
    e.error("E0304", site.spans[0], "`dispatch`: the value lacks the tokens' dims {}",
            quoted(e, missing_from(dims, plan->tokens)))
        .here(describe(e, site.arguments[0]))
        .label(plan->span, "the plan is made here");
    return Term::poison();
  }
  if (!divides(e, site, *plan) || !lacks(e, site, 0, x, {plan->expert, plan->slot, plan->part})) return Term::poison();
  e.build.span = site.span;
  if (without_slots(e, *plan)) return Term::of(e.build.broadcast(x, {&plan->expert, 1}));
  const Routed by = routed_by_call(e, *plan, site.span);
  // The experts have their names last, so that what moves tokens to where these lie moves nothing else.
  const ValueId seated = e.build.value(TakeOp{by.grouping.token()}, {by.grouping.grouped(x), by.source});
  return Term::of(e.build.value(SplitOp{by.seats, {plan->expert, plan->slot}}, {seated}));
}

/// y[part, expert, slot, ..] -> [tokens.., ..]: to each token what its experts gave, times their weights.
Term combine(Elaboration& e, CallSite& site) {
  RoutingPlan* plan = plan_argument(e, site, 1);
  const ValueId y = tensor_of(e, site.arguments[0], site.spans[0]);
  if (plan == nullptr || !y || !knows_tokens(e, site, 1, *plan)) return Term::poison();
  const bool by_token = without_slots(e, *plan);
  std::vector<DimId> needed{plan->expert};
  if (by_token) needed.insert(needed.end(), plan->tokens.begin(), plan->tokens.end());
  else needed.push_back(plan->slot);
  if (plan->part && !by_token) needed.push_back(plan->part);
  if (const auto lacking = missing_from(e.type(y).dims, needed); !lacking.empty()) {
    e.error("E0304", site.spans[0], "`combine`: this lacks {}", quoted(e, lacking))
        .here(describe(e, site.arguments[0]))
        .label(plan->span, "the plan is made here")
        .help("it takes what the experts made of the dispatched tokens, each in its slot");
    return Term::poison();
  }
  if (!is_float(e.type(y).element)) {
    e.error("E0313", site.spans[0], "`combine` needs floats")
        .here(describe(e, site.arguments[0]))
        .help(fmt::format("write the cast that is meant: `f32({})`", e.sources.text(site.spans[0])));
    return Term::poison();
  }
  if (!by_token && !lacks(e, site, 0, y, plan->tokens)) return Term::poison();
  e.build.span = site.span;
  const Type element = e.type(y).element;
  const auto seated = [&](const Routed& by) {
    return e.build.value(MergeOp{{plan->expert, plan->slot}, by.seats}, {y});
  };
  if (plan->experts_choose()) {
    const Routed by = routed_by_call(e, *plan, site.span);
    const ValueId weighted = e.build.multiply(seated(by), e.build.cast(by.weight, element));
    std::vector<DimId> dims = e.type(weighted).dims;
    std::ranges::replace(dims, by.seats, by.grouping.token());
    const ValueId sums = e.build.value(ScatterOp{by.grouping.token(), dims}, {by.source, weighted});
    return Term::of(by.grouping.ungrouped(sums));
  }
  std::vector<DimId> choices = plan->choices(e);
  if (by_token) {
    const auto choice = [&](ValueId value) { return plan->once ? first_choice(e, choices, value) : value; };
    const Combine sums{plan->expert, plan->once ? std::vector<DimId>{} : choices};
    const ValueId weight = e.build.cast(choice(plan->weight), element);
    return Term::of(e.build.value(sums.op(), {y, choice(plan->chosen), weight}));
  }
  const Routed by = routed_by_call(e, *plan, site.span);
  const ValueId weight = e.build.cast(by.grouping.grouped(plan->weight), element);
  return Term::of(by.grouping.ungrouped(e.build.value(Combine{by.seats, choices}.op(), {seated(by), by.seat, weight})));
}

/// bool[tokens.., choices..]: which choices found no slot; where experts choose, which tokens no expert took.
Term dropped(Elaboration& e, CallSite& site) {
  RoutingPlan* plan = plan_argument(e, site, 0);
  if (plan == nullptr || !knows_tokens(e, site, 0, *plan)) return Term::poison();
  e.build.span = site.span;
  if (without_slots(e, *plan)) {
    const ValueId none = e.build.literal(-1, Type::i32);
    return Term::of(e.build.map(F::equal, {plan->chosen, none}));
  }
  const Routed by = routed_by_call(e, *plan, site.span);
  if (!plan->experts_choose()) {
    const ValueId none = e.build.literal(-1, Type::i32);
    return Term::of(by.grouping.ungrouped(e.build.map(F::equal, {by.seat, none})));
  }
  std::vector<DimId> groups;
  if (plan->part) groups.push_back(plan->part);
  groups.push_back(by.grouping.token());
  const ValueId one = e.build.broadcast(e.build.literal(1, Type::i32), e.type(by.source).dims);
  const ValueId takers = e.build.value(ScatterOp{by.grouping.token(), groups}, {by.source, one});
  return Term::of(by.grouping.ungrouped(e.build.map(F::equal, {takers, e.build.literal(0, Type::i32)})));
}

}  // namespace functions

}  // namespace mesh::elaboration
