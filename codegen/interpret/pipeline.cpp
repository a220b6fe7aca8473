// pipeline.cpp: a rank of a pipeline makes the actions of its list, and messages go between neighbouring ranks.
#include <algorithm>
#include <memory>

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"
#include "codegen/program/branches.h"
#include "codegen/program/pipeline_slots.h"
#include "meshrt/collectives.h"

namespace mesh {

Task bind_step(Binding& binding, const MessageStep& message) {
  const std::optional<int64_t> other = neighbour(binding.mesh(), message, binding.rank.rank());
  if (!other) return [] {};
  const Buffer& buffer = binding.buffer(message.value);
  int64_t count = 1;
  for (const LocalDim& dim : dims_of(binding.program, message.value)) count *= binding.extent(dim);
  const int own = binding.rank.rank(), there = static_cast<int>(*other);
  const meshrt::Channel channel = message.sends ? binding.rank.channel(own, there) : binding.rank.channel(there, own);
  const meshrt::Site site{-1, buffer.name.c_str()};
  return [&binding, to = Pointer(binding, message.value), count, channel, site, type = buffer.type,
          sends = message.sends] {
    meshrt::Rank& rank = binding.rank;
    if (sends) binding.sends->push_back(meshrt::send_start(rank, channel, site, to.at(binding), count, type));
    else meshrt::wait(rank, meshrt::receive_start(rank, channel, site, to.at(binding), count, type));
  };
}

Task bind_step(Binding&, const ActionStep&) { internal_error("an action stands in no pipeline"); }

namespace {

/// An action, and the sends of its earlier turns that may still be under way, by slot.
struct BoundAction {
  std::vector<Task> body;
  std::vector<std::vector<meshrt::Ticket>> sends;

  void end(meshrt::Rank& rank, size_t slot) {
    for (const meshrt::Ticket& ticket : sends[slot]) meshrt::wait(rank, ticket);
    sends[slot].clear();
  }
};

}  // namespace

Task bind_pipeline(Binding& binding, const ForStep& loop) {
  const auto slots = static_cast<size_t>(slots_of(*loop.order));
  const auto actions = std::make_shared<std::vector<BoundAction>>();
  for (const Step& step : loop.body)
    actions->push_back(
        {bind_steps(binding, std::get<ActionStep>(step.what).body), std::vector<std::vector<meshrt::Ticket>>(slots)});
  const int64_t stage = binding.mesh().coordinate(binding.rank.rank(), loop.order->axis);
  int64_t& turn = binding.turns[loop.loop.index];
  return [&binding, &turn, actions, slots, list = loop.order->schedule.ranks[static_cast<size_t>(stage)]] {
    for (const Action& one : list) {
      if (one.kind == ActionKind::idle) continue;
      BoundAction& action = one.kind == ActionKind::forward ? actions->front() : actions->back();
      turn = one.micro_batch;
      const size_t slot = static_cast<size_t>(turn) % slots;
      action.end(binding.rank, slot);
      binding.sends = &action.sends[slot];
      for (const Task& task : action.body) task();
    }
    for (BoundAction& action : *actions)
      for (size_t slot = 0; slot < slots; ++slot) action.end(binding.rank, slot);
    turn = 0;
  };
}

}  // namespace mesh
