#include "collectives/make_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "meshrt/failure.h"
#include "transport/fingerprint.h"

namespace meshrt {

namespace {

Call make_call(const Group& group, Kind kind, Site site, Type type) {
  Call call;
  call.kind = kind;
  call.site = site;
  call.type = type;
  call.members = group.size();
  call.me = group.index;
  return call;
}

Call make_call(const Group& group, Kind kind, Site site, const void* source, void* destination, Type type) {
  Call call = make_call(group, kind, site, type);
  call.only.source = static_cast<const std::byte*>(source);
  call.only.destination = static_cast<std::byte*>(destination);
  return call;
}

int64_t elements(const Blocks& blocks) {
  return blocks.outer * (blocks.begin.back() - blocks.begin.front()) * blocks.inner;
}

void require_parts(const Group& group, const Call& call, std::span<const int64_t> begin) {
  if (static_cast<int>(begin.size()) != group.size() + 1)
    throw Failure(Cause::usage, fmt::format("{} of '{}': {} parts for a group of {}", name_of(call.kind),
                                            call.site.value, static_cast<int64_t>(begin.size()) - 1, group.size()));
}

void require_member(const Group& group, const Call& call, int member) {
  if (member >= group.size())
    throw Failure(Cause::usage, fmt::format("{} of '{}': there is no member {} in a group of {}", name_of(call.kind),
                                            call.site.value, member, group.size()));
}

Call blocks_call(const Group& group, Kind kind, Site site, const void* source, void* destination, const Blocks& blocks,
                 Type type) {
  Call call = make_call(group, kind, site, source, destination, type);
  require_parts(group, call, blocks.begin);
  call.only.blocks = blocks;
  call.only.count = elements(blocks);
  return call;
}

Boxes contiguous(int64_t count) { return count > 0 ? Boxes{{{0, 1, count, count}}} : Boxes{}; }

Item item_of(const void* source, void* destination, const Blocks& blocks) {
  return {static_cast<const std::byte*>(source), static_cast<std::byte*>(destination), elements(blocks), blocks};
}

}  // namespace

Call all_reduce_call(const Group& group, Site site, void* data, int64_t count, Type type, Reduce reduce) {
  Call call = make_call(group, Kind::all_reduce, site, data, data, type);
  call.only.count = count;
  call.reduce = reduce;
  return call;
}

Call reduce_scatter_call(const Group& group, Site site, const void* whole, void* part, const Blocks& blocks, Type type,
                         Reduce reduce) {
  Call call = blocks_call(group, Kind::reduce_scatter, site, whole, part, blocks, type);
  call.reduce = reduce;
  return call;
}

Call all_gather_call(const Group& group, Site site, const void* part, void* whole, const Blocks& blocks, Type type) {
  return blocks_call(group, Kind::all_gather, site, part, whole, blocks, type);
}

Call all_to_all_call(const Group& group, Site site, const void* from, void* to, const Exchange& exchange, Type type) {
  Call call = make_call(group, Kind::all_to_all, site, from, to, type);
  require_parts(group, call, exchange.first);
  require_parts(group, call, exchange.second);
  call.exchange = exchange;
  call.only.count = exchange.outer * (exchange.first.back() - exchange.first.front()) * exchange.middle *
                    (exchange.second.back() - exchange.second.front()) * exchange.inner;
  return call;
}

Call broadcast_call(const Group& group, Site site, void* data, int64_t count, Type type, int root) {
  Call call = make_call(group, Kind::broadcast, site, data, data, type);
  require_member(group, call, root);
  call.only.count = count;
  call.root = root;
  return call;
}

Call barrier_call(const Group& group, Site site) { return make_call(group, Kind::barrier, site, Type::u8); }

Call permute_call(const Group& group, Site site, const void* source, const Boxes& sent, int to, void* destination,
                  const Boxes& taken, const Boxes& received, int from, Type type) {
  Call call = make_call(group, Kind::permute, site, source, destination, type);
  require_member(group, call, to);
  require_member(group, call, from);
  call.to = to;
  call.from = from;
  const auto size = static_cast<int64_t>(size_of(type));
  if (to >= 0) call.sent = scaled(sent, size);
  if (from >= 0) call.taken = scaled(taken, size), call.received = scaled(received, size);
  call.only.count = bytes_of(call.sent) / size;
  call.receive_count = bytes_of(call.received) / size;
  return call;
}

Call permute_call(const Group& group, Site site, const void* send, int64_t send_count, int to, void* receive,
                  int64_t receive_count, int from, Type type) {
  return permute_call(group, site, send, contiguous(send_count), to, receive, contiguous(receive_count),
                      contiguous(receive_count), from, type);
}

Call message_call(const Group& channel, Site site, const void* source, void* destination, int64_t count, Type type,
                  ChannelMessage message) {
  Call call = make_call(channel, Kind::message, site, source, destination, type);
  const bool sends = channel.index == Channel::sender;
  const Boxes all = scaled(contiguous(count), static_cast<int64_t>(size_of(type)));
  if (sends) call.to = Channel::receiver, call.sent = all;
  else call.from = Channel::sender, call.taken = call.received = all;
  call.only.count = count;
  call.message = message;
  call.message.peer = channel.members[sends ? Channel::receiver : Channel::sender];
  return call;
}

Call own_call(const Group& group, Site site, Type type) {
  Call call = permute_call(group, site, nullptr, 0, -1, nullptr, 0, -1, type);
  call.members = 1;
  call.me = 0;
  return call;
}

Call all_reduce_call(const Group& group, Site site, std::span<const Whole> values, Type type, Reduce reduce) {
  Call call = make_call(group, Kind::all_reduce, site, type);
  call.reduce = reduce;
  for (const Whole& value : values)
    call.several.push_back(
        {static_cast<const std::byte*>(value.data), static_cast<std::byte*>(value.data), value.count, {}});
  return call;
}

Call reduce_scatter_call(const Group& group, Site site, std::span<const Scattered> values, Type type, Reduce reduce) {
  Call call = make_call(group, Kind::reduce_scatter, site, type);
  call.reduce = reduce;
  for (const Scattered& value : values) {
    require_parts(group, call, value.blocks.begin);
    call.several.push_back(item_of(value.whole, value.part, value.blocks));
  }
  return call;
}

Call all_gather_call(const Group& group, Site site, std::span<const Gathered> values, Type type) {
  Call call = make_call(group, Kind::all_gather, site, type);
  for (const Gathered& value : values) {
    require_parts(group, call, value.blocks.begin);
    call.several.push_back(item_of(value.part, value.whole, value.blocks));
  }
  return call;
}

std::vector<int64_t> all_at(const Group& group, int root, int64_t count) {
  std::vector<int64_t> begin(static_cast<size_t>(group.size()) + 1, 0);
  std::fill(begin.begin() + root + 1, begin.end(), count);
  return begin;
}

}  // namespace meshrt
