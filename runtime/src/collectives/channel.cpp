#include "meshrt/channel.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "collectives/make_call.h"
#include "meshrt/failure.h"
#include "transport/fingerprint.h"
#include "transport/transport.h"

namespace meshrt {

class ChannelEnd::Calls {
 public:
  Calls(Rank& rank, const ChannelShape& shape, Site site, const ChannelBuffers& buffers, int64_t count, Type type)
      : rank_(rank), slots_(shape.slots), buffers_(buffers.number) {
    if (shape.micro_batches < 1 || shape.slots < 1 || shape.slots > Channel::most_slots - 1 || buffers.number < 1)
      throw Failure(Cause::usage, fmt::format("a channel of '{}' for {} micro-batches with {} slots and {} buffers",
                                              site.value, shape.micro_batches, shape.slots, buffers.number));
    for (int slot = 0; slot < shape.slots; ++slot)
      groups_.push_back(rank.channel(shape.from, shape.to, shape.number, slot).group);
    for (int micro_batch = 0; micro_batch < shape.micro_batches; ++micro_batch) {
      const Group& group = group_of(micro_batch);
      auto* const at = static_cast<std::byte*>(buffers.first) + micro_batch % buffers.number * buffers.apart;
      Call& call = calls_.emplace_back(
          message_call(group, site, at, at, count, type, {.micro_batch = micro_batch, .slots = shape.slots}));
      prepare(group, call);
    }
    tickets_.resize(calls_.size());
    users_.resize(static_cast<size_t>(buffers.number), -1);
  }

  void start(int micro_batch) {
    int& user = users_[static_cast<size_t>(micro_batch % buffers_)];
    if (user >= 0 && !rank_.transport().finished(tickets_[static_cast<size_t>(user)]))
      throw Failure(Cause::usage, fmt::format("{} needs the buffer of micro-batch {}, which is still under way",
                                              describe(calls_[static_cast<size_t>(micro_batch)]), user));
    user = micro_batch;
    tickets_[static_cast<size_t>(micro_batch)] =
        start_prepared(rank_, group_of(micro_batch), calls_[static_cast<size_t>(micro_batch)]);
  }
  void make_room(int micro_batch) {
    if (const int user = users_[static_cast<size_t>(micro_batch % buffers_)]; user >= 0) wait(user);
  }
  void wait(int micro_batch) { meshrt::wait(rank_, tickets_[static_cast<size_t>(micro_batch)]); }
  bool finished(int micro_batch) { return meshrt::finished(rank_, tickets_[static_cast<size_t>(micro_batch)]); }
  void finish() {
    for (const Ticket ticket : tickets_) meshrt::wait(rank_, ticket);
  }

 private:
  const Group& group_of(int micro_batch) const { return *groups_[static_cast<size_t>(micro_batch % slots_)]; }

  Rank& rank_;
  int slots_, buffers_;
  std::vector<const Group*> groups_;  // by slot
  std::vector<Call> calls_;           // by micro-batch, as the tickets
  std::vector<Ticket> tickets_;
  std::vector<int> users_;  // by buffer: the micro-batch that had it last; -1: none
};

ChannelEnd::ChannelEnd(Rank& rank, const ChannelShape& shape, Site site, const ChannelBuffers& buffers, int64_t count,
                       Type type)
    : calls_(std::make_unique<Calls>(rank, shape, site, buffers, count, type)) {}
ChannelEnd::~ChannelEnd() = default;
ChannelEnd::ChannelEnd(ChannelEnd&&) noexcept = default;
ChannelEnd& ChannelEnd::operator=(ChannelEnd&&) noexcept = default;
void ChannelEnd::make_room(int micro_batch) { calls_->make_room(micro_batch); }
void ChannelEnd::start(int micro_batch) { calls_->start(micro_batch); }
void ChannelEnd::wait(int micro_batch) { calls_->wait(micro_batch); }
bool ChannelEnd::finished(int micro_batch) { return calls_->finished(micro_batch); }
void ChannelEnd::finish() { calls_->finish(); }

}  // namespace meshrt
