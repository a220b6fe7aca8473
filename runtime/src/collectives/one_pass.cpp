#include "meshrt/one_pass.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "collectives/plan_calls.h"
#include "collectives/vector_ops.h"
#include "meshrt/poll.h"
#include "meshrt/profile.h"
#include "meshrt/threads.h"
#include "transport/transport.h"

namespace meshrt {

namespace {

// Of sums and of results: they stay in a core's own cache, with what the update itself reads and writes, and each array
// is read for as long as it takes hardware to see a stream and to run ahead of it.
constexpr int64_t stretch_elements = 16384;

struct Scratch {
  alignas(64) std::byte sum[stretch_elements * 8];
  alignas(64) std::byte next[stretch_elements * 8];
};

/// Adds what moving took to the time of collectives, and leaves that of the update itself out.
class Moving {
 public:
  Moving() : profile_(thread_profile()) { go_on(); }
  void go_on() {
    if (profile_) start_ = Clock::now();
  }
  void stop() {
    if (!profile_) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    profile_->collectives += seconds;
    profile_->calls += seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;
  StepProfile* profile_;
  Clock::time_point start_;
};

bool is_within(const Rank& rank, const std::byte* place) {
  return place >= rank.arena() && place < rank.arena() + rank.arena_bytes();
}

}  // namespace

OnePass::OnePass(Plan& scatter, Plan& gather) : OnePass(&scatter, gather) {}
OnePass::OnePass(Plan& gather) : OnePass(nullptr, gather) {}

OnePass::OnePass(Plan* scatter, Plan& gather) : scatter_(scatter), gather_(&gather) {
  Rank& rank = gather.calls().rank();
  const Group& group = gather.calls().group();
  std::vector<const Item*> sums;
  std::vector<Call> calls;
  if (scatter)
    for (const Call& call : scatter->calls().all())
      for (const Item& item : call.items()) sums.push_back(&item);
  bool shared = !switched_off("one-pass");
  for (const Call& call : gather.calls().all()) {
    sent_ += sent_bytes(call);
    for (const Item& item : call.items()) {
      const Blocks& blocks = item.blocks;
      const auto me = static_cast<size_t>(group.index);
      Value value;
      value.next = const_cast<std::byte*>(item.source);
      value.parameter = item.destination;
      value.next_size = static_cast<int64_t>(size_of(call.type));
      value.outer = blocks.outer;
      value.row = (blocks.begin.back() - blocks.begin.front()) * blocks.inner;
      value.part_row = (blocks.begin[me + 1] - blocks.begin[me]) * blocks.inner;
      value.begin = (blocks.begin[me] - blocks.begin.front()) * blocks.inner;
      shared = shared && is_within(rank, value.parameter);
      values_.push_back(value);
    }
  }
  size_t next = 0;
  if (scatter)
    for (const Call& call : scatter->calls().all()) {
      sent_ += sent_bytes(call);
      for (const Item& item : call.items()) {
        Value& value = values_.at(next++);
        value.gradient = item.source;
        value.sum = item.destination;
        value.sum_type = call.type;
        value.reduce = call.reduce;
        value.sum_size = static_cast<int64_t>(size_of(call.type));
        shared = shared && is_within(rank, value.gradient);
      }
    }
  for (int member = 0; shared && member < group.size(); ++member) {
    const std::byte* const arena = rank.transport().arena_of(group, member);
    if (arena) apart_.push_back(arena - rank.arena());
    else apart_.clear(), shared = false;
  }
  const Site site = gather.calls().all().front().site;
  if (!shared) return;
  arrive_ = plan_barrier(rank, group, site);
  leave_ = plan_barrier(rank, group, site);
}

void OnePass::begin() {
  if (apart_.empty()) {
    if (scatter_) scatter_->run();
    return;
  }
  if (StepProfile* const profile = thread_profile()) profile->sent += sent_;
  arrive_.run();
}

void OnePass::end() { (apart_.empty() ? *gather_ : leave_).run(); }

void OnePass::stretch(const Value& value, int64_t row, int64_t col, int64_t rows, int64_t cols,
                      const Update& update) const {
  thread_local Scratch scratch;
  thread_local std::vector<const std::byte*> sources;
  const size_t members = apart_.size();
  const int64_t part = row * value.part_row + col, whole = row * value.row + col;
  Moving moving;
  if (value.gradient) {
    sources.resize(members);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = (value.begin + whole + r * value.row) * value.sum_size;
      for (size_t m = 0; m < members; ++m) sources[m] = value.gradient + apart_[m] + at;
      vector_ops().reduce(value.sum_type, value.reduce, scratch.sum + r * cols * value.sum_size, sources.data(),
                          static_cast<int>(members), cols);
    }
  }
  moving.stop();
  update({value.gradient ? scratch.sum : nullptr, scratch.next, part, whole, rows, cols});
  moving.go_on();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = (value.begin + whole + r * value.row) * value.next_size, bytes = cols * value.next_size;
    for (const int64_t apart : apart_)
      std::memcpy(value.parameter + apart + at, scratch.next + r * bytes, static_cast<size_t>(bytes));
  }
  moving.stop();
}

void OnePass::each_stretch(size_t index, const Update& update) const {
  const Value& value = values_.at(index);
  if (value.outer * value.part_row == 0) return;
  if (apart_.empty()) return update({value.sum, value.next, 0, 0, value.outer, value.part_row});
  const bool long_rows = value.part_row > stretch_elements;
  const int64_t cols = long_rows ? stretch_elements : value.part_row, rows = long_rows ? 1 : stretch_elements / cols;
  const int64_t in_a_row = (value.part_row + cols - 1) / cols, in_a_column = (value.outer + rows - 1) / rows;
  share(in_a_row * in_a_column, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / in_a_row * rows, col = i % in_a_row * cols;
      stretch(value, row, col, std::min(rows, value.outer - row), std::min(cols, value.part_row - col), update);
      poll();
    }
  });
}

}  // namespace meshrt
