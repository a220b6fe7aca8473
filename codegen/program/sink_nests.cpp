// sink_nests.cpp: nests move down to the steps that read what they give, so that what is merged stands side by side.
#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_map>

#include "codegen/program/fuse.h"

namespace mesh {

namespace {

constexpr size_t none = std::numeric_limits<size_t>::max();

/// The order of elements some of which are put before others, and which of two comes first.
class Order {
 public:
  explicit Order(size_t count) : before_(count + 1), behind_(count + 1), label_(count + 1) {
    for (size_t i = 0; i <= count; ++i) before_[i] = i - 1, behind_[i] = i + 1;  // the last one is the end
    before_[0] = count, behind_[count] = 0;
    number();
  }
  size_t first() const { return behind_[end()]; }
  size_t behind(size_t element) const { return behind_[element]; }
  size_t end() const { return label_.size() - 1; }
  bool comes_first(size_t a, size_t b) const { return label_[a] < label_[b]; }

  void put_before(size_t element, size_t other) {
    behind_[before_[element]] = behind_[element];
    before_[behind_[element]] = before_[element];
    const size_t last = before_[other];
    before_[element] = last, behind_[element] = other;
    behind_[last] = before_[other] = element;
    const int64_t begin = last == end() ? -gap : label_[last];
    label_[element] = begin + (label_[other] - begin) / 2;
    if (label_[element] == begin) number();
  }

 private:
  static constexpr int64_t gap = int64_t{1} << 32;

  void number() {
    int64_t next = 0;
    for (size_t i = first(); i != end(); i = behind_[i], next += gap) label_[i] = next;
    label_[end()] = next;
  }

  std::vector<size_t> before_, behind_;
  std::vector<int64_t> label_;
};

/// Whether both, sorted, have an element in common.
bool share_one(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  return std::ranges::any_of(a, [&](uint32_t one) { return contains(b, one); });
}

/// From the last step to the first, with the first of those behind it that touch, and write, each memory.
class Sinker {
 public:
  Sinker(const Program& program, Steps& steps, const std::vector<bool>& shared)
      : steps_(steps), shared_(shared), order_(steps.size()) {
    for (const Step& step : steps) sets_.push_back(sets_of(program, step));
  }

  void run() {
    for (size_t i = steps_.size(); i-- > 0;) {
      const size_t next = std::holds_alternative<Nest>(steps_[i].what) ? next_in_the_way(i) : none;
      if (next != none && share_one(sets_[i].writes, sets_[next].reads)) order_.put_before(i, next);
      note(i);
    }
    Steps sorted;
    sorted.reserve(steps_.size());
    for (size_t i = order_.first(); i != order_.end(); i = order_.behind(i)) sorted.push_back(std::move(steps_[i]));
    steps_ = std::move(sorted);
  }

 private:
  struct First {
    size_t touches = none, writes = none;
  };

  size_t first(size_t a, size_t b) const {
    if (a == none || b == none) return a == none ? b : a;
    return order_.comes_first(a, b) ? a : b;
  }

  size_t next_in_the_way(size_t i) const {
    size_t next = none;
    for (const uint32_t written : sets_[i].writes)
      if (const auto found = first_.find(written); found != first_.end()) next = first(next, found->second.touches);
    for (const uint32_t read : sets_[i].reads)
      if (const auto found = first_.find(read); found != first_.end()) next = first(next, found->second.writes);
    return stays_in_forward(steps_[i], sets_[i], shared_) ? first(next, behind_forward_) : next;
  }

  void note(size_t i) {
    for (const uint32_t read : sets_[i].reads) {
      size_t& touches = first_[read].touches;
      touches = first(touches, i);
    }
    for (const uint32_t written : sets_[i].writes) {
      First& of = first_[written];
      of = {first(of.touches, i), first(of.writes, i)};
    }
    if (steps_[i].part != Part::forward) behind_forward_ = first(behind_forward_, i);
  }

  Steps& steps_;
  const std::vector<bool>& shared_;
  Order order_;
  std::vector<StepSets> sets_;
  std::unordered_map<uint32_t, First> first_;  // by memory
  size_t behind_forward_ = none;               // the first step of another part
};

}  // namespace

bool stays_in_forward(const Step& step, const StepSets& sets, const std::vector<bool>& shared) {
  return step.part == Part::forward && std::ranges::any_of(sets.writes, [&](uint32_t id) { return shared[id]; });
}

void sink_nests(const Program& program, Steps& steps, const std::vector<bool>& shared) {
  Sinker(program, steps, shared).run();
}

}  // namespace mesh
