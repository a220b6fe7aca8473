// two_level.h: what calls over two levels are made of.
#pragma once
#include <utility>

#include "collectives/make_call.h"
#include "transport/fingerprint.h"
#include "transport/hosts.h"

namespace meshrt {

/// One of the calls that make it up. They are made one after the other, so it is the first of its group at once.
struct Stage {
  Stage(Transport& transport, const Group& group, uint32_t sequence, Call made)
      : call(std::move(made)), finished(sequence - 1), head(finished) {
    prepare(group, call);
    call.sequence = sequence;
    head.set(sequence);
    task = transport.task_of(group, call, head);
  }
  Call call;
  Finished finished;
  HeadOfQueue head;
  Task task;
};

}  // namespace meshrt
