#include "transport/ucx.h"

#include "transport/ucx_call.h"

namespace meshrt {

UcxTransport::UcxTransport(std::shared_ptr<Control> control, const WaitPolicy& policy)
    : worker_(std::move(control), policy), policy_(policy) {
  policy_.first_looks = 16;  // each of them progresses the worker
}

std::byte* UcxTransport::allocate_arena(size_t bytes) {
  // Nobody touches memory before all have found that there is enough.
  worker_.control().exchange({}, policy_.timeout, [] {});
  arena_ = Mapping(bytes, -1);
  touch(arena_.data(), arena_.bytes());
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

void UcxTransport::post(const Group& group, const Call& call) {
  if (rounds_.size() <= static_cast<size_t>(group.id)) rounds_.resize(group.id + 1);
  if (rounds_[group.id].empty()) rounds_[group.id].resize(max_pending);
  UcxCall(*this, group, call).announce();
}

void UcxTransport::finish(const Group& group, const Call& call) {
  UcxCall exchange(*this, group, call);
  exchange.await_announcements();
  if (call.kind == Kind::all_reduce) ucx_all_reduce(exchange, call);
  else if (call.kind != Kind::barrier) ucx_movement(exchange, call);
}

}  // namespace meshrt
