#include "codegen/interpret/steps.h"

#include <algorithm>
#include <array>
#include <memory>

#include "codegen/graph/builder.h"
#include "codegen/interpret/functions.h"
#include "codegen/interpret/nest.h"
#include "codegen/layout/cut.h"
#include "codegen/program/branches.h"
#include "codegen/program/step.h"

namespace mesh {

std::vector<Task> bind_steps(Binding& binding, std::span<const Step> steps) {
  std::vector<Task> actions;
  actions.reserve(steps.size());
  for (const Step& step : steps)
    actions.push_back(std::visit([&](const auto& kind) { return bind_step(binding, kind); }, step.what));
  return actions;
}

Task bind_step(Binding& binding, const Nest& nest) {
  return [bound = std::make_shared<BoundNest>(binding, nest)] { bound->run(); };
}

Task bind_step(Binding& binding, const DefinedStep& step) { return step.definition->bind(binding, step); }

Task bind_step(Binding&, const UntilStep&) { internal_error("an `until` step is not the last one of its loop"); }

Task bind_step(Binding& binding, const ForStep& loop) {
  if (loop.loop.index >= binding.turns.size()) internal_error("a loop has a number that the program does not count");
  std::span<const Step> steps = loop.body;
  Pointer done;
  if (!steps.empty())
    if (const auto* until = std::get_if<UntilStep>(&steps.back().what)) {
      done = Pointer(binding, until->done);
      steps = steps.first(steps.size() - 1);
    }
  const std::map<DimId, LoopId> around = binding.loops;
  binding.loops[loop.dim] = loop.loop;
  binding.loop_extent[loop.loop.index] = loop.turns;
  if (loop.order) {
    if (loop.order->stage) binding.loop_extent[loop.order->stage.index] = loop.order->schedule.stages;
    Task pipeline = bind_pipeline(binding, loop);
    binding.loops = around;
    return pipeline;
  }
  const auto body = std::make_shared<std::vector<Task>>(bind_steps(binding, steps));
  binding.loops = around;
  int64_t& turn = binding.turns[loop.loop.index];
  std::vector<Range> ranges{loop.own ? binding.range({loop.dim, *loop.own}) : Range{0, loop.turns}};
  if (loop.only != ForStep::Only::every) {
    const int64_t only = loop.only == ForStep::Only::first ? loop.first_turn() : loop.last_turn();
    ranges = {Range{only, only + 1}};
  }
  if (loop.stage) {
    const ShardedGraph& sharded = binding.program.sharded;
    ranges = turns_of_stages(sharded.graph, sharded.layout.pipeline, loop.dim);
  }
  const int64_t* const stage = loop.stage ? &binding.turns[loop.stage.index] : nullptr;
  return [&binding, body, done, &turn, ranges, stage, reverse = loop.reverse] {
    const Range& made = ranges[static_cast<size_t>(stage ? *stage : 0)];
    for (int64_t i = 0; i < made.size(); ++i) {
      turn = reverse ? made.end - 1 - i : made.begin + i;
      for (const Task& action : *body) action();
      if (done && *done.at(binding) != std::byte{0}) break;
    }
    turn = 0;
  };
}

Task bind_step(Binding& binding, const BranchStep& branch) {
  // Groups are made by all ranks, in one order.
  const auto body = std::make_shared<std::vector<Task>>(bind_steps(binding, branch.body));
  const int64_t rank = binding.rank.rank();
  if (!may_enter(binding.mesh(), branch, rank)) return [] {};
  std::vector<std::pair<int64_t, std::function<int64_t()>>>
      turns;  // this rank's coordinate, and the one whose turn it is
  for (const Where& where : branch.at)
    if (where.owner) turns.emplace_back(binding.mesh().coordinate(rank, where.axis), coordinate_of(binding, where));
  const StageUnderWay only = branch.stage.value_or(StageUnderWay{});
  const int64_t* const stage = branch.stage ? &binding.turns[only.stage.index] : nullptr;
  const auto ranks = static_cast<int64_t>(binding.program.sharded.layout.pipeline.lists.ranks.size());
  return [body, turns, stage, only, ranks] {
    if (stage && *stage / ranks != only.number) return;
    for (const auto& [own, coordinate] : turns)
      if (coordinate() != own) return;
    for (const Task& action : *body) action();
  };
}

Task bind_step(Binding& binding, const OnePassStep& pass) {
  return [body = std::make_shared<std::vector<Task>>(bind_steps(binding, pass.body))] {
    for (const Task& action : *body) action();
  };
}

Task bind_step(Binding& binding, const FillStep& fill) {
  int64_t elements = 1;
  for (const LocalDim& dim : dims_of(binding.program, fill.to)) elements *= binding.extent(dim);
  const Type type = binding.buffer(fill.to).type;
  std::array<std::byte, 8> value{};
  write_literal(fill.value, type, value.data());
  return [&binding, to = Pointer(binding, fill.to), elements, value, move = chunk_kernels().move(type)] {
    move(value.data(), 0, to.at(binding), 1, elements);
  };
}

namespace {

// What both sides of a copy hold, walked through in the order of the target: rows of its innermost dim.
struct BoundCopy {
  Pointer from, to;
  std::vector<int64_t> extents, from_strides, to_strides;  // by the target's dims; bytes
  int64_t bytes;                                           // of an element
  ChunkMove move;

  void copy(const std::byte* source, std::byte* target, size_t dim) const {
    if (dim + 1 == extents.size()) {
      move(source, from_strides[dim] / bytes, target, to_strides[dim] / bytes, extents[dim]);
      return;
    }
    for (int64_t i = 0; i < extents[dim]; ++i)
      copy(source + i * from_strides[dim], target + i * to_strides[dim], dim + 1);
  }
};

}  // namespace

Task bind_step(Binding& binding, const CopyStep& step) {
  const Buffer &from = binding.buffer(step.from), &to = binding.buffer(step.to);
  if (from.type != to.type) internal_error("a copy from " + from.name + " to " + to.name + " changes the type");
  const auto from_dims = dims_of(binding.program, step.from), to_dims = dims_of(binding.program, step.to);
  if (from_dims.size() != to_dims.size())
    internal_error("a copy from " + from.name + " to " + to.name + " changes the number of dims");
  BoundCopy copy{Pointer(binding, step.from),
                 Pointer(binding, step.to),
                 {},
                 {},
                 {},
                 static_cast<int64_t>(meshrt::size_of(to.type)),
                 chunk_kernels().move(to.type)};
  const int64_t rank = binding.rank.rank();
  for (size_t i = 0; i < to_dims.size(); ++i) {
    const size_t at = position_of(binding, step.from, to_dims[i].dim);
    const Range held = binding.range(from_dims[at]), wanted = binding.range(to_dims[i]);
    const int64_t begin = std::max(held.begin, wanted.begin), end = std::min(held.end, wanted.end);
    copy.extents.push_back(std::max<int64_t>(0, end - begin));
    copy.from_strides.push_back(copy.bytes * stride(binding.program, from, step.from.turns.size() + at, rank));
    copy.to_strides.push_back(copy.bytes * stride(binding.program, to, step.to.turns.size() + i, rank));
    if (begin >= end) continue;
    copy.from.move((begin - held.begin) * copy.from_strides.back());
    copy.to.move((begin - wanted.begin) * copy.to_strides.back());
  }
  if (copy.extents.empty()) {  // a scalar
    copy.extents = {1};
    copy.from_strides = copy.to_strides = {0};
  }
  return [&binding, copy = std::move(copy)] { copy.copy(copy.from.at(binding), copy.to.at(binding), 0); };
}

}  // namespace mesh
