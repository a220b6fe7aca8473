#include "codegen/program/verify_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <ranges>

#include "codegen/graph/dims.h"
#include "codegen/layout/redistribution.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/lookup_dims.h"
#include "codegen/program/print_program.h"
#include "codegen/program/step.h"

namespace mesh {

namespace {

class StepVerifier {
 public:
  StepVerifier(const Program& program, const Step& step) : program_(program), step_(step) {}
  std::vector<std::string> messages;

  void operator()(const Nest& nest) {
    std::vector<bool> defined(nest.rows.size());
    for (const Pass& pass : nest.passes) {
      std::vector<LocalDim> dims = nest.outer;
      dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
      for (size_t i = 0; i < dims.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (dims[i].dim == dims[j].dim) say(fmt::format("iterates twice over {}", name(dims[i].dim)));
      scalars(pass, dims, defined);
      for (const Pass::Store& s : pass.stores) {
        written(s.scalar, s.to, dims, pass);
        if (dims_of(program_, s.to).size() - fixed(s.to) != dims.size())
          say(fmt::format("stores to {} without all of its dims", to_string(program_, s.to)));
      }
      for (const Pass::Accumulate& a : pass.accumulates) written(a.scalar, a.to, dims, pass);
      for (const Pass::Reduction& r : pass.reductions) {
        if (!is_entry(r.scalar, pass.scalars.size())) say("reduces a scalar that there is not");
        if (!is_entry(r.row, defined.size())) say("reduces to a row that there is not");
        else defined[static_cast<size_t>(r.row)] = true;
      }
    }
    for (const LoopBound& bound : nest.bounds) {
      stops(bound);
      const bool walks =
          std::ranges::count(nest.outer, bound.along) > 0 || std::ranges::any_of(nest.passes, [&](const Pass& pass) {
            return std::ranges::count(pass.inner, bound.along) > 0;
          });
      if (!walks) say(fmt::format("stops along {}, over which it does not iterate", name(bound.along.dim)));
    }
  }

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

  void operator()(const CollectiveStep& c) {
    if (c.step >= program_.sharded.steps.size()) return say("belongs to no reshard step");
    const ReshardStep& reshard = program_.sharded.steps[c.step];
    if (reshard.kind != c.kind || reshard.axes != c.axes || reshard.to_axes != c.to_axes ||
        reshard.reduce != c.reduce || reshard.at != c.at)
      say("is not the collective that the layout asked for");
    if (!std::ranges::equal(c.before, dims_of(program_, c.from)) ||
        !std::ranges::equal(c.after, dims_of(program_, c.to)))
      say("states other shapes than its buffers have");
    if (program_.buffer(c.from.buffer).type != program_.buffer(c.to.buffer).type) say("changes the element type");
    if (c.axes.empty() && c.phase != CollectiveStep::Phase::whole)
      say("is started, but no other rank takes part in it");
    for (const Access& access : {c.from, c.to})
      if (!c.axes.empty() && program_.buffer(storage(program_, access.buffer)).space != Space::arena)
        say(fmt::format("works on {} outside the arena", to_string(program_, access)));
    std::vector<LocalDim> expected = c.before;
    const auto gathers = [&](int at) {
      DimPlacement* dim =
          at >= 0 && at < static_cast<int>(expected.size()) ? &expected[static_cast<size_t>(at)].placement : nullptr;
      if (!dim || dim->axes.size() < c.axes.size() || !std::equal(c.axes.rbegin(), c.axes.rend(), dim->axes.rbegin()))
        return say("gathers axes that the dim is not split over");
      dim->axes.resize(dim->axes.size() - c.axes.size());
      if (dim->axes.empty() && dim->deal.in_order()) dim->deal = {};
    };
    const auto splits = [&](int at) {
      if (at < 0 || at >= static_cast<int>(expected.size())) return say("splits a dim that there is not");
      DimPlacement& dim = expected[static_cast<size_t>(at)].placement;
      if (dim.axes.empty() && !dim.deal && c.after.size() == expected.size()) {
        const Deal& deal = c.after[static_cast<size_t>(at)].placement.deal;
        if (deal.in_order()) dim.deal = deal;
      }
      dim.axes.insert(dim.axes.end(), c.axes.begin(), c.axes.end());
    };
    if (c.kind == CollectiveKind::halo) return margins(c);
    if (c.kind == CollectiveKind::permute) return owners(c);
    if (c.kind == CollectiveKind::redistribute) return redistributes(c);
    if (c.kind == CollectiveKind::broadcast || c.kind == CollectiveKind::reduce)
      if (c.axes != std::vector{c.at.axis} || c.from == c.to || (!c.at.owner && c.at.coordinates.empty()) ||
          (c.kind == CollectiveKind::reduce && c.at.coordinates.size() > 1))
        say("has not one rank at its end");
    if (c.kind == CollectiveKind::all_gather || c.kind == CollectiveKind::all_to_all) gathers(c.from_dim);
    if (c.kind == CollectiveKind::reduce_scatter || c.kind == CollectiveKind::all_to_all ||
        c.kind == CollectiveKind::slice)
      splits(c.to_dim);
    if (expected != c.after) say("does not lead to the shape that its result has");
  }

  void margins(const CollectiveStep& c) {
    if (c.from != c.to) say("does not fill margins in place");
    if (c.from_dim < 0 || c.from_dim >= static_cast<int>(c.before.size()))
      return say("fills margins of a dim that there is not");
    const DimPlacement& dim = c.before[static_cast<size_t>(c.from_dim)].placement;
    if (!dim.margin || dim.axes != c.axes) say("fills other margins than its dim has");
  }

  /// Any parts of the same dims: what moves does so within the group.
  void redistributes(const CollectiveStep& c) {
    if (!std::ranges::equal(c.before, c.after, {}, &LocalDim::dim, &LocalDim::dim))
      return say("changes the order of dims in memory");
    const auto placements = [](const std::vector<LocalDim>& dims) {
      DimPlacements all;
      for (const LocalDim& local : dims) all.push_back(local.placement);
      return all;
    };
    if (moving_axes(placements(c.before), placements(c.after)) != c.axes)
      say("has not the ranks together that its elements move between");
    for (const LocalDim& local : c.before)
      if (local.placement.margin) say(fmt::format("moves {} with its margins", name(local.dim)));
  }

  /// Each member gets the part that it needs from the one that holds it.
  void owners(const CollectiveStep& c) {
    if (!std::ranges::is_permutation(c.axes, c.to_axes)) return say("numbers its parts over other axes than its group");
    const MeshShape& mesh = program_.sharded.layout.mesh;
    const auto rank_of = [&](int64_t index) {
      int64_t rank = 0;
      for (const AxisId axis : std::views::reverse(c.axes)) {
        rank += index % mesh.axes[axis].size * mesh.axes[axis].stride;
        index /= mesh.axes[axis].size;
      }
      return rank;
    };
    for (int64_t member = 0; member < mesh.size(c.axes); ++member) {
      const int64_t needs = rank_of(member), holds = rank_of(index_over(mesh, c.to_axes, needs));
      for (size_t i = 0; i < std::min(c.before.size(), c.after.size()); ++i)
        if (c.before[i].dim != c.after[i].dim || c.before[i].placement.deal != c.after[i].placement.deal ||
            local_range(program_, c.before[i], holds) != local_range(program_, c.after[i], needs))
          return say(fmt::format("gives rank {} another part of {} than it needs", needs, name(c.after[i].dim)));
    }
  }

  void operator()(const DefinedStep& s) {
    std::vector<Access> all = s.reads;
    all.insert(all.end(), s.writes.begin(), s.writes.end());
    same_parts(all, true);
    s.definition->verify(program_, s, [this](const std::string& what) { say(what); });
  }
  void operator()(const CombinedStep& c) {
    for (const CollectiveStep& one : c.collectives) {
      (*this)(one);
      const CollectiveStep& first = c.collectives.front();
      if (one.kind != first.kind || one.axes != first.axes || one.at != first.at || one.reduce != first.reduce ||
          one.phase != first.phase || program_.buffer(one.to.buffer).type != program_.buffer(first.to.buffer).type)
        say("makes other movements in one call");
    }
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
  void operator()(const MessageStep& m) {
    if (program_.buffer(storage(program_, m.value.buffer)).space != Space::arena)
      say(fmt::format("works on {} outside the arena", to_string(program_, m.value)));
    for (const LocalDim& local : dims_of(program_, m.value))
      if (contains(local.placement.axes, m.axis))
        say(fmt::format("sends a part of {} as if it lay alike", name(local.dim)));
  }
  void operator()(const UntilStep& u) {
    if (program_.buffer(u.done.buffer).type != Type::boolean || !dims_of(program_, u.done).empty())
      say("asks something else than a truth value");
  }
  template <HasBodies Kind>
  void operator()(const Kind&) {}

 private:
  void say(const std::string& what) { messages.push_back(summary(program_, step_) + " " + what); }
  std::string name(DimId dim) const { return program_.sharded.graph.dim(dim).name; }
  static bool is_entry(int index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; }

  std::optional<DimPlacement> part(const Access& access, DimId dim) const {
    for (const LocalDim& local : dims_of(program_, access))
      if (local.dim == dim) return local.placement;
    return {};
  }

  /// What a call works on together, a rank holds the same part of, and of what it `reads_beside` perhaps margins.
  void same_parts(const std::vector<Access>& accesses, bool reads_beside = false) {
    std::map<DimId, DimPlacement> parts;
    for (const Access& access : accesses)
      for (const LocalDim& local : dims_of(program_, access)) {
        const DimPlacement& placement = reads_beside ? without_margin(local).placement : local.placement;
        if (const auto [known, fresh] = parts.emplace(local.dim, placement); !fresh && known->second != placement)
          say(fmt::format("meets dim {} split in two ways", name(local.dim)));
      }
  }

  /// How far a step goes is a number that is there before it, along a dim that is held in order.
  void stops(const LoopBound& bound) {
    const Buffer& last = program_.buffer(bound.last.buffer);
    if (last.type != Type::i32 || !dims_of(program_, bound.last).empty())
      say(fmt::format("stops along {} at {}, which is no index", name(bound.along.dim),
                      to_string(program_, bound.last)));
    if (bound.along.placement.deal || bound.along.placement.margin)
      say(fmt::format("stops along {}, which is not held in order and alone", name(bound.along.dim)));
  }

  /// Dims of a group must be neighbours in memory, in order.
  void stretch(const std::vector<DimId>& group, const Access& access) {
    const auto dims = dims_of(program_, access);
    const auto found = std::search(dims.begin(), dims.end(), group.begin(), group.end(),
                                   [](const LocalDim& local, DimId dim) { return local.dim == dim; });
    if (!group.empty() && found == dims.end())
      say(fmt::format("needs dims of {} side by side that are not", to_string(program_, access)));
  }

  /// Dims of the buffer of which the access has one element.
  static size_t fixed(const Access& access) {
    return static_cast<size_t>(
        std::count_if(access.maps.begin(), access.maps.end(), [](const IndexMap& map) { return !map.along; }));
  }

  /// Where a map leads along one of `dims`; whether its elements are there, if nothing stands for missing ones.
  void mapped(const Access& access, const IndexMap& map, const std::vector<LocalDim>& dims) {
    const std::vector<LocalDim>& held = program_.buffer(access.buffer).dims;
    if (map.position < access.turns.size() || map.position >= held.size())
      return say(fmt::format("leads along a dim that {} lacks", to_string(program_, access)));
    if (map.turn) return;  // verify_program.cpp
    const auto along = std::find_if(dims.begin(), dims.end(), [&](const LocalDim& d) { return d.dim == map.along; });
    if (map.along && along == dims.end())
      return say(fmt::format("leads along {} in {} and does not iterate over it", name(map.along),
                             to_string(program_, access)));
    if (!held[map.position].placement.deal.in_order() || (map.along && !along->placement.deal.in_order()))
      return say(fmt::format("leads along {} in {}, which is not held in order", name(held[map.position].dim),
                             to_string(program_, access)));
    const int at = map.along ? static_cast<int>(along - dims.begin()) : -1;
    if (!map.outside && !always_inside(program_, {map, at, map.along ? *along : LocalDim{}, held[map.position]}))
      say(fmt::format("leads to elements that {} does not hold", to_string(program_, access)));
  }

  /// Every dim of the access is iterated, over a part that the buffer holds on every rank.
  void readable(const Access& access, const std::vector<LocalDim>& dims) {
    for (const IndexMap& map : access.maps) mapped(access, map, dims);
    for (size_t position = access.turns.size(); position < program_.buffer(access.buffer).dims.size(); ++position) {
      const LocalDim& held = program_.buffer(access.buffer).dims[position];
      if (map_at(access, position)) continue;
      const auto found = std::find_if(dims.begin(), dims.end(), [&](const LocalDim& d) { return d.dim == held.dim; });
      if (found == dims.end()) {
        say(fmt::format("does not iterate over dim {} of {}", name(held.dim), to_string(program_, access)));
        continue;
      }
      if (found->placement == held.placement) continue;
      const Deal &asked_for = found->placement.deal, &lies = held.placement.deal;
      if (asked_for != lies && !(asked_for.in_order() && lies.in_order())) {
        say(fmt::format("reads dim {} of {} in another order than it is held in", name(held.dim),
                        to_string(program_, access)));
        continue;
      }
      for (int64_t rank = 0; rank < program_.sharded.layout.mesh.ranks(); ++rank) {
        const Range all = local_range(program_, held, rank), asked = local_range(program_, *found, rank);
        if (asked.size() == 0 || (asked.begin >= all.begin && asked.end <= all.end)) continue;
        say(fmt::format("reads [{}, {}) of dim {} of {}, of which rank {} holds [{}, {})", asked.begin, asked.end,
                        name(held.dim), to_string(program_, access), rank, all.begin, all.end));
        break;
      }
    }
  }

  void scalars(const Pass& pass, const std::vector<LocalDim>& dims, const std::vector<bool>& defined) {
    for (size_t i = 0; i < pass.scalars.size(); ++i) {
      const Scalar& scalar = pass.scalars[i];
      if (const auto* load = std::get_if<Scalar::Load>(&scalar.what)) {
        readable(load->access, dims);
        if (program_.buffer(load->access.buffer).type != scalar.type)
          say(fmt::format("loads {} as another type", to_string(program_, load->access)));
      } else if (const auto* row = std::get_if<Scalar::Row>(&scalar.what)) {
        if (!is_entry(row->row, defined.size()) || !defined[static_cast<size_t>(row->row)])
          say(fmt::format("reads row{} before a pass has reduced it", row->row));
      } else if (const auto* index = std::get_if<Scalar::Index>(&scalar.what)) {
        if (std::none_of(dims.begin(), dims.end(), [&](const LocalDim& d) { return d.dim == index->dim; }))
          say(fmt::format("asks for the position along {}, over which it does not iterate", name(index->dim)));
      } else if (const auto* random = std::get_if<Scalar::Random>(&scalar.what)) {
        for (const auto& [dim, turn] : random->dims)
          if (!turn &&
              std::none_of(dims.begin(), dims.end(), [&, &of = dim](const LocalDim& d) { return d.dim == of; }))
            say(fmt::format("draws numbers along {}, over which it does not iterate", name(dim)));
        if (scalar.type != Type::f32 && scalar.type != Type::f64)
          say(fmt::format("draws numbers of {}", meshrt::name_of(scalar.type)));
      } else if (const auto* apply = std::get_if<Scalar::Apply>(&scalar.what)) {
        if (apply->operands.size() != static_cast<size_t>(info(apply->function).operands))
          say(fmt::format("gives {} operands to {}", apply->operands.size(), info(apply->function).name));
        bool entries = true;
        for (int operand : apply->operands) entries = entries && is_entry(operand, i);
        if (!entries) say("computes a scalar from one that comes later");
        else types(pass, scalar, *apply);
      }
    }
  }

  /// Operands have the result's type, those of comparisons each other's; a condition is bool.
  void types(const Pass& pass, const Scalar& scalar, const Scalar::Apply& apply) {
    if (apply.operands.empty()) return;
    const auto type = [&](size_t i) { return pass.scalars[static_cast<size_t>(apply.operands[i])].type; };
    if (apply.function == MapFunction::cast) {
      if ((is_narrow(scalar.type) && computed_in(scalar.type) != type(0)) ||
          (is_narrow(type(0)) && computed_in(type(0)) != scalar.type))
        say(fmt::format("casts {} to {} at once", meshrt::name_of(type(0)), meshrt::name_of(scalar.type)));
      return;
    }
    const bool where = apply.function == MapFunction::where;
    if (!where && (is_narrow(scalar.type) || is_narrow(type(0))))
      say(fmt::format("computes {} in {}", info(apply.function).name, meshrt::name_of(scalar.type)));
    const bool compares = info(apply.function).to_boolean;
    bool good = !where || type(0) == Type::boolean;
    for (size_t i = where ? 1 : 0; i < apply.operands.size(); ++i)
      good = good && type(i) == (compares ? type(0) : scalar.type);
    if (!good) say(fmt::format("mixes types in {}", info(apply.function).name));
  }

  /// What is written has the nest's own parts: nothing of it lies on another rank.
  void written(int scalar, const Access& to, const std::vector<LocalDim>& dims, const Pass& pass) {
    if (!is_entry(scalar, pass.scalars.size())) return say("writes a scalar that there is not");
    if (pass.scalars[static_cast<size_t>(scalar)].type != program_.buffer(to.buffer).type)
      say(fmt::format("writes another type to {}", to_string(program_, to)));
    for (const IndexMap& map : to.maps) {
      if (map.outside) say(fmt::format("writes elements of {} that may be missing", to_string(program_, to)));
      mapped(to, map, dims);
    }
    for (size_t position = to.turns.size(); position < program_.buffer(to.buffer).dims.size(); ++position) {
      const LocalDim& held = program_.buffer(to.buffer).dims[position];
      // Between margins the own part is written.
      if (!map_at(to, position) && std::find(dims.begin(), dims.end(), without_margin(held)) == dims.end())
        say(fmt::format("writes {} without iterating over its part of {}", to_string(program_, to), name(held.dim)));
    }
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

  const Program& program_;
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
