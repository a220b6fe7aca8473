#include "transport/fingerprint.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "meshrt/failure.h"
#include "transport/site_names.h"

namespace meshrt {

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccd;
}

uint64_t mix(uint64_t hash, std::span<const int64_t> begin) {
  for (const int64_t b : begin) hash = mix(hash, static_cast<uint64_t>(b - begin[0]));
  return hash;
}

uint64_t shape_of(const Call& call) {
  uint64_t hash = 1;
  switch (call.kind) {
    case Kind::reduce_scatter:
    case Kind::all_gather:
      for (const Item& item : call.items())
        hash = mix(mix(mix(hash, item.blocks.begin), item.blocks.outer), item.blocks.inner);
      return hash;
    case Kind::all_to_all: {
      const Exchange& e = call.exchange;
      return mix(mix(mix(mix(mix(2 + e.gathers_first, e.first), e.second), e.outer), e.middle), e.inner);
    }
    case Kind::broadcast: return call.root;
    case Kind::permute: return static_cast<uint64_t>(call.to + 1) << 32 | static_cast<uint32_t>(call.from + 1);
    case Kind::message: return MessageShape(call).word();
    case Kind::all_reduce:
      if (call.several.empty()) return 0;
      for (const Item& item : call.items()) hash = mix(hash, static_cast<uint64_t>(item.count));
      return hash;
    case Kind::barrier: return 0;
  }
  return 0;
}

/// "call 7 of the group of ranks 0 2", "call 3 in slot 1 of channel 0 from rank 0 to rank 2"
std::string place_of(const Group& group, const Call& call) {
  if (group.channel < 0)
    return fmt::format("call {} of the group of ranks {}", call.sequence, fmt::join(group.members, " "));
  return fmt::format("call {} in slot {} of channel {} from rank {} to rank {}", call.sequence, group.slot,
                     group.channel, group.members[Channel::sender], group.members[Channel::receiver]);
}

std::string waiting(const Group& group, const Call& call, const std::string& how, int member) {
  return fmt::format("rank {} {} for rank {} in {}, {}", group.members[call.me], how, group.members[member],
                     place_of(group, call), describe(call));
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "all_reduce";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::all_gather: return "all_gather";
    case Kind::all_to_all: return "all_to_all";
    case Kind::broadcast: return "broadcast";
    case Kind::permute: return "permute";
    case Kind::message: return "message";
    case Kind::barrier: return "barrier";
  }
  return "?";
}

const char* name_of(const Call& call) {
  if (call.kind == Kind::message) return MessageShape(call).sends ? "send" : "receive";
  return name_of(call.kind);
}

MessageShape::MessageShape(const Call& call)
    : sends(call.to >= 0), slots(static_cast<uint16_t>(call.message.slots)), micro_batch(call.message.micro_batch) {}
MessageShape::MessageShape(uint64_t shape)
    : sends((shape & 1) != 0),
      slots(static_cast<uint16_t>(shape >> 1)),
      micro_batch(static_cast<int32_t>(shape >> 32) - 1) {}
uint64_t MessageShape::word() const {
  return static_cast<uint64_t>(micro_batch + 1) << 32 | static_cast<uint64_t>(slots) << 1 |
         static_cast<uint64_t>(sends);
}

namespace {

Fingerprint fingerprint(const Group& group, const Call& call) {
  const auto word = [](auto low, auto high) { return static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low); };
  const uint32_t kinds = static_cast<uint32_t>(call.kind) | static_cast<uint32_t>(call.type) << 8 |
                         static_cast<uint32_t>(call.reduce) << 16 | static_cast<uint32_t>(group.size()) << 24;
  return std::bit_cast<Fingerprint>(std::array{word(0, call.site.id), word(kinds, group.key >> 32),
                                               static_cast<uint64_t>(call.count()), shape_of(call)});
}

}  // namespace

void prepare(const Group& group, Call& call) {
  call.announced.print = fingerprint(group, call);
  call.announced.value.assign(call.site);
  call.bytes = 0;
  for (const Item& item : call.items()) call.bytes += source_bytes(call, item);
}

void check_match(const Group& group, const Call& call, const Fingerprint& mine, int index, const Fingerprint& theirs,
                 const ValueName& their_value) {
  bool fits = theirs.kind == mine.kind && theirs.type == mine.type && theirs.group == mine.group;
  if (fits && mine.kind == Kind::permute) {
    const int their_to = static_cast<int>(theirs.shape >> 32) - 1,
              their_from = static_cast<int>(theirs.shape & 0xffffffff) - 1;
    if (index == call.from) fits = their_to == call.me && theirs.count == call.receive_count;
    if (index == call.to) fits = fits && their_from == call.me;
  } else if (fits && mine.kind == Kind::message) {
    fits = theirs.count == mine.count && (theirs.shape ^ 1) == mine.shape;
  } else if (fits) {
    fits = FingerprintWords(mine) == FingerprintWords(theirs);
  }
  if (fits) return;
  std::string detail;
  if (mine.kind == Kind::permute && theirs.kind == Kind::permute)
    detail = fmt::format("; rank {} expects {} elements from member {} and sends to member {}", group.members[call.me],
                         call.receive_count, call.from, call.to);
  else if (mine.kind == Kind::message && theirs.kind == Kind::message &&
           MessageShape(mine.shape).slots != MessageShape(theirs.shape).slots)
    detail = fmt::format("; rank {} has the channel with {} slots, rank {} with {} slots", group.members[call.me],
                         MessageShape(mine.shape).slots, group.members[index], MessageShape(theirs.shape).slots);
  else if (mine.kind != Kind::message && theirs.kind == mine.kind && theirs.count == mine.count &&
           theirs.type == mine.type && theirs.shape != mine.shape)
    detail = mine.kind == Kind::broadcast ? "; their roots differ" : "; their parts differ";
  throw Failure(Cause::mismatch,
                fmt::format("ranks {} and {} diverge at {}: rank {} is at {}, rank {} at {}{}. "
                            "All ranks of a group must make the same calls in the same order",
                            group.members[call.me], group.members[index], place_of(group, call), group.members[call.me],
                            describe(call), group.members[index], describe(theirs, their_value.text), detail));
}

std::string late_message(const Group& group, const Call& call, int member, std::chrono::nanoseconds waited) {
  return waiting(group, call, fmt::format("waited {:g} s", std::chrono::duration<double>(waited).count()), member);
}

std::string ended_message(const Group& group, const Call& call, int member) {
  return fmt::format("{}, but rank {} has ended without making it", waiting(group, call, "waits", member),
                     group.members[member]);
}

std::string describe(const Fingerprint& call, const char* value) {
  std::string text = name_of(call.kind);
  if (call.kind == Kind::message) {
    const MessageShape message(call.shape);
    text = message.sends ? "send" : "receive";
    if (message.micro_batch >= 0) text += fmt::format(" of micro-batch {}", message.micro_batch);
  }
  if (*value) text += fmt::format(" of '{}'", value);
  if (call.kind != Kind::barrier) {
    text += fmt::format(" ({} x {}", call.count, name_of(call.type));
    if (call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter)
      text += fmt::format(", {}", name_of(call.reduce));
    text += ")";
  }
  if (call.site >= 0) text += " at " + site_name(call.site);
  return text;
}

std::string describe(const Call& call) { return describe(call.announced.print, call.site.value); }

}  // namespace meshrt
