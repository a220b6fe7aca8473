#include "codegen/program/verify_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/graph/dims.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/lookup_dims.h"
#include "codegen/program/print_program.h"
#include "codegen/program/step.h"
#include "codegen/program/step_messages.h"

namespace mesh {

namespace {

class StepVerifier : public StepMessages {
 public:
  StepVerifier(const Program& program, const Step& step) : StepMessages(program, step), step_(step) {}

  void operator()(const Nest& nest) { messages = verify_nest(program_, step_, nest); }
  void operator()(const CollectiveStep& c) { messages = verify_movement(program_, step_, c); }
  void operator()(const CombinedStep& c) { messages = verify_movement(program_, step_, c); }
  void operator()(const MessageStep& m) { messages = verify_movement(program_, step_, m); }

  void operator()(const ProductStep& p) {
    const auto check = [&](const Access& access, const char* which,
                           std::initializer_list<const std::vector<DimId>*> groups) {
      for (const LocalDim& local : dims_of(program_, access)) {
        const bool known =
            std::any_of(groups.begin(), groups.end(), [&](const auto* group) { return has(*group, local.dim); });
        if (!known) say(fmt::format("has no use for dim {} of {}", name(local.dim), which));
      }
    };
    check(p.a, "a", {&p.batch, &p.rows, &p.inner});
    check(p.b, "b", {&p.batch, &p.inner, &p.cols});
    check(p.c, "c", {&p.batch, &p.rows, &p.cols});
    for (const auto& [group, one, other] :
         {std::tuple{&p.rows, &p.a, &p.c}, {&p.inner, &p.a, &p.b}, {&p.cols, &p.b, &p.c}}) {
      stretch(*group, *one);
      stretch(*group, *other);
    }
    std::vector<Access> all{p.a, p.b, p.c};
    for (const auto& more : {p.epilogue.bias, p.epilogue.slope, p.epilogue.times, p.epilogue.plus, p.column_sum})
      if (more) all.push_back(*more);
    same_parts(all);
    const auto type = [&](const Access& access) { return program_.buffer(access.buffer).type; };
    if (p.epilogue.rounded) same_parts({p.c, *p.epilogue.rounded});
    if (p.epilogue.rounded && (type(*p.epilogue.rounded) != Type::bf16 || type(p.c) != Type::f32))
      say(fmt::format("rounds f32 to bf16 in no way: {}", to_string(program_, *p.epilogue.rounded)));
    if (p.epilogue.rounded_alone && (!p.epilogue.rounded || p.accumulate)) say("leaves nothing behind");
    if (p.rounds_b && (type(p.b) != Type::f32 || type(p.a) != Type::bf16))
      say(fmt::format("rounds {} beside {}", to_string(program_, p.b), to_string(program_, p.a)));
    for (const Access& access : all)
      if (computed_in(type(access)) != type(p.c) || (type(access) != type(p.c) && access != p.a && access != p.b))
        say(fmt::format("meets {} of another type than its result", to_string(program_, access)));
    for (const LoopBound& bound : p.bounds) {
      stops(bound);
      const bool leads = has(p.batch, bound.along.dim) ||
                         std::ranges::any_of(std::array{&p.rows, &p.inner, &p.cols}, [&](const auto* group) {
                           return !group->empty() && group->front() == bound.along.dim;
                         });
      if (!leads) say(fmt::format("stops along {}, which leads none of its lists", name(bound.along.dim)));
    }
    for (DimId dim : p.batch)
      if (!part(p.c, dim)) say(fmt::format("loops over {}, which the result lacks", name(dim)));
    p.epilogue.for_each_like_result([&](const Access& extra) {
      if (!std::ranges::equal(dims_of(program_, extra), dims_of(program_, p.c)))
        say(fmt::format("has {} in its epilogue, which does not lie like the result", to_string(program_, extra)));
      if (storage(program_, extra.buffer) == storage(program_, p.c.buffer) && extra.turns == p.c.turns)
        say(fmt::format("has its own result {} in its epilogue", to_string(program_, extra)));
    });
  }

  void operator()(const DefinedStep& s) {
    std::vector<Access> all = s.reads;
    all.insert(all.end(), s.writes.begin(), s.writes.end());
    same_parts(all, true);
    s.definition->verify(program_, s, [this](const std::string& what) { say(what); });
  }
  void operator()(const CopyStep& c) {
    const auto to = dims_of(program_, c.to);
    if (to.size() != dims_of(program_, c.from).size()) say("copies between other dims");
    readable(c.from, {to.begin(), to.end()});
  }
  void operator()(const AttentionStep& a) {
    std::vector<Access> all{a.q, a.k, a.v, a.out, a.log_sum};
    if (a.backward) all.insert(all.end(), {a.d_out, a.d_q, a.d_k, a.d_v});
    same_parts(all);
    const std::span<const LocalDim> heads = head_dims(program_, a);
    for (const Access* of : a.backward ? std::vector{&a.q, &a.out, &a.d_out, &a.d_q} : std::vector{&a.q, &a.out})
      if (std::ranges::search(dims_of(program_, *of), heads, {}, &LocalDim::dim, &LocalDim::dim).empty() &&
          !heads.empty())
        say(fmt::format("has heads of {} that share keys apart in memory", to_string(program_, *of)));
    if (a.ring) ring(a);
  }
  /// Keys are split as the queries are, whose ranks then meet all of them; places for parts lie as these do.
  void ring(const AttentionStep& a) {
    const auto queries = part(a.q, a.op.query), keys = part(a.k, a.op.key);
    if (!queries || !keys || keys->axes != a.ring->axes || queries->axes.size() < keys->axes.size() ||
        !std::equal(keys->axes.rbegin(), keys->axes.rend(), queries->axes.rbegin()))
      say("sends keys round that are not split as its queries are");
    const auto alike = [&](const Access& part, const auto& places) {
      for (const Access& place : places) {
        if (!std::ranges::equal(dims_of(program_, place), dims_of(program_, part)))
          say(fmt::format("has another place for a part than {}", to_string(program_, part)));
        if (program_.buffer(storage(program_, place.buffer)).space != Space::arena)
          say(fmt::format("works on {} outside the arena", to_string(program_, place)));
      }
    };
    alike(a.k, a.ring->k);
    alike(a.v, a.ring->v);
    if (a.backward) alike(a.d_k, a.ring->d_k), alike(a.d_v, a.ring->d_v);
    for (const uint32_t index : a.ring->steps)
      if (index >= program_.sharded.steps.size() || program_.sharded.steps[index].kind != CollectiveKind::ring ||
          program_.sharded.steps[index].axes != a.ring->axes || program_.sharded.steps[index].meets != a.ring->meets)
        say("is not the ring that the layout asked for");
  }
  void operator()(const TakeStep& t) { table(t.table, t.ids, t.out, t.dim); }
  void operator()(const ScatterStep& t) { table(t.table, t.ids, t.rows, t.dim); }
  void operator()(const FillStep&) {}
  void operator()(const UntilStep& u) {
    if (program_.buffer(u.done.buffer).type != Type::boolean || !dims_of(program_, u.done).empty())
      say("asks something else than a truth value");
  }
  template <HasBodies Kind>
  void operator()(const Kind&) {}

 private:
  /// Dims of a group must be neighbours in memory, in order.
  void stretch(const std::vector<DimId>& group, const Access& access) {
    const auto dims = dims_of(program_, access);
    const auto found = std::search(dims.begin(), dims.end(), group.begin(), group.end(),
                                   [](const LocalDim& local, DimId dim) { return local.dim == dim; });
    if (!group.empty() && found == dims.end())
      say(fmt::format("needs dims of {} side by side that are not", to_string(program_, access)));
  }

  void table(const Access& of, const Access& ids, const Access& rows, DimId dim) {
    if (!part(of, dim))
      return say(fmt::format("looks up {} in {}, which lacks it", name(dim), to_string(program_, of)));
    const auto order = [&](const Access& access) {
      Dims dims;
      for (const LocalDim& local : dims_of(program_, access)) dims.push_back(local.dim);
      return dims;
    };
    if (order(ids) != lookup_order_of_ids(program_, of, ids, dim) ||
        order(of) != lookup_order_of_table(program_, of, ids, dim) ||
        order(rows) != lookup_order_of_rows(program_, of, ids, dim))
      say(fmt::format("has rows {}, which do not begin as the indices and end as the table",
                      to_string(program_, rows)));
    for (const LocalDim& local : dims_of(program_, ids))
      if (const auto in_table = part(of, local.dim); in_table && *in_table != local.placement)
        say(fmt::format("meets dim {} split in two ways", name(local.dim)));
    for (const LocalDim& local : dims_of(program_, rows)) {
      const auto in_table = part(of, local.dim), in_ids = part(ids, local.dim);
      if ((!in_table || *in_table != local.placement) && (!in_ids || *in_ids != local.placement))
        say(fmt::format("has dim {} in its rows as neither the table nor the indices have it", name(local.dim)));
    }
  }

  const Step& step_;
};

}  // namespace

std::vector<std::string> verify_step(const Program& program, const Step& step) {
  StepVerifier verifier(program, step);
  std::visit(verifier, step.what);
  if (!std::holds_alternative<Nest>(step.what))
    for_each_access(step, [&](const Access& access, Use) {
      if (!access.maps.empty())
        verifier.messages.push_back(fmt::format("{} is no nest, but leads along {} by a map", summary(program, step),
                                                to_string(program, access)));
    });
  return std::move(verifier.messages);
}

}  // namespace mesh
