#include "transport/ucx.h"

#include <fmt/format.h>

#include "meshrt/failure.h"
#include "transport/ucx_call.h"

namespace meshrt {

UcxTransport::UcxTransport(std::shared_ptr<Control> control, const WaitPolicy& policy)
    : worker_(std::move(control), policy), policy_(policy) {
  policy_.first_looks = 16;  // each of them progresses the worker
}

std::byte* UcxTransport::allocate_arena(size_t bytes, const UsedMemory& used) {
  // Nobody touches memory before all have found that there is enough.
  worker_.control().exchange({}, policy_.timeout, [] {});
  arena_ = Mapping(bytes, -1);
  touch_ranges(arena_.data(), used(worker_.control().welcome().rank).arena);
  return arena_.data();
}

void UcxTransport::set_timeout(double seconds) {
  policy_.set_timeout(seconds);
  worker_.set_timeout(seconds);
}

size_t UcxTransport::own_bytes() const {
  return static_cast<size_t>(UcxCall::most_rooms(worker_.control().welcome().ranks()));
}

void UcxTransport::progress() {
  UcxWorker::Batch none;
  worker_.progress(none);
  worker_.control().look();
}

const std::atomic<uint32_t>& UcxTransport::aborted() const {
  static const std::atomic<uint32_t> never{0};  // the launcher ends processes; there is no flag
  return never;
}

void UcxTransport::require_own_tags(const Group& group) {
  if (groups_.size() <= static_cast<size_t>(group.id)) groups_.resize(group.id + 1);
  if (groups_[group.id]) return;
  // Those of channels are told apart by the ranks that send them.
  for (const Group* const other : groups_)
    if (other && other->channel < 0 && UcxCall::tag_of(*other) == UcxCall::tag_of(group))
      throw Failure(Cause::usage,
                    fmt::format("the groups of ranks {} and {} get one number by chance, so their messages "
                                "could not be told apart; name the axes of one in another order",
                                fmt::join(other->members, " "), fmt::join(group.members, " ")));
  groups_[group.id] = &group;
}

Task UcxTransport::task_of(const Group& group, const Call& call, HeadOfQueue& head) {
  require_own_tags(group);
  UcxCall exchange(*this, group, call);
  if (call.kind == Kind::all_reduce) return ucx_all_reduce(std::move(exchange), call, head);
  if (call.kind == Kind::permute) return ucx_permute(std::move(exchange), call, head);
  if (call.kind == Kind::message) return ucx_message(std::move(exchange), call, head);
  return ucx_movement(std::move(exchange), call, head);
}

}  // namespace meshrt
