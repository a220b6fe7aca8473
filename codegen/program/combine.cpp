#include "codegen/program/combine.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "codegen/program/fuse.h"
#include "codegen/program/step.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Phase = CollectiveStep::Phase;

struct Lightness {
  bool operator()(const Nest&) const { return true; }
  bool operator()(const CollectiveStep&) const { return true; }
  bool operator()(const CopyStep&) const { return true; }
  bool operator()(const FillStep&) const { return true; }
  bool operator()(const ProductStep&) const { return false; }
  bool operator()(const AttentionStep&) const { return false; }
  bool operator()(const TakeStep&) const { return false; }
  bool operator()(const ScatterStep&) const { return false; }
  bool operator()(const CombinedStep&) const { return false; }
  bool operator()(const MessageStep&) const { return false; }
  bool operator()(const UntilStep&) const { return false; }
  template <HasBodies Kind>
  bool operator()(const Kind&) const {
    return false;
  }
  bool operator()(const DefinedStep& s) const { return s.definition->is_light; }
};

/// Steps that may change places with collectives: what takes long, or repeats, stands still.
bool is_light(const Step& step) { return std::visit(Lightness{}, step.what); }

const CollectiveStep* combinable(const Step& step) {
  const auto* collective = std::get_if<CollectiveStep>(&step.what);
  if (!collective || collective->phase != Phase::whole) return nullptr;
  const bool takes_several = collective->kind == CollectiveKind::all_reduce ||
                             collective->kind == CollectiveKind::reduce_scatter ||
                             collective->kind == CollectiveKind::all_gather;
  return takes_several ? collective : nullptr;
}

class Combiner {
 public:
  explicit Combiner(Program& program) : program_(program) {}

  void run(Steps& steps) {
    Steps out;
    for (size_t first = 0; first < steps.size();) {
      size_t end = first + 1;
      const auto same_phase = [&](const Step& step) {
        return (step.part == Part::forward) == (steps[first].part == Part::forward);
      };
      while (is_light(steps[first]) && end < steps.size() && is_light(steps[end]) && same_phase(steps[end])) ++end;
      stretch(std::span(steps).subspan(first, end - first), out);
      first = end;
    }
    steps = std::move(out);
  }

 private:
  /// In order, but collectives wait until nothing else can be done; then all of a kind go in one call.
  void stretch(std::span<Step> steps, std::vector<Step>& out) {
    Waiting waiting = waiting_of(steps);
    std::set<size_t> ready;                    // what is no such collective
    std::map<Kind, std::set<size_t>> by_kind;  // collectives that are
    const auto offer = [&](size_t step) {
      if (const CollectiveStep* one = combinable(steps[step])) by_kind[kind_of(*one, steps[step].part)].insert(step);
      else ready.insert(step);
    };
    const auto finish = [&](size_t step) {
      for (const size_t next : waiting.next[step])
        if (--waiting.on[next] == 0) offer(next);
    };
    for (size_t i = 0; i < steps.size(); ++i)
      if (waiting.on[i] == 0) offer(i);
    while (!ready.empty() || !by_kind.empty()) {
      if (!ready.empty()) {
        const size_t step = *ready.begin();
        ready.erase(ready.begin());
        out.push_back(std::move(steps[step]));
        finish(step);
        continue;
      }
      const auto kind = std::ranges::min_element(by_kind, {}, [](const auto& one) { return *one.second.begin(); });
      const std::vector<size_t> call(kind->second.begin(), kind->second.end());
      by_kind.erase(kind);
      out.push_back(joined(steps, call));
      for (const size_t step : call) finish(step);
    }
  }

  /// What each step of a stretch waits for: those before it that it may not change places with. Of those that use the
  /// same memory it is enough to know the nearest.
  struct Waiting {
    std::vector<size_t> on;                 // how many
    std::vector<std::vector<size_t>> next;  // the reverse
  };
  Waiting waiting_of(std::span<const Step> steps) const {
    Waiting waiting{std::vector<size_t>(steps.size()), std::vector<std::vector<size_t>>(steps.size())};
    struct Users {
      std::optional<size_t> writer;
      std::vector<size_t> readers;  // since then
    };
    std::unordered_map<uint32_t, Users> users;  // by memory
    for (size_t i = 0; i < steps.size(); ++i) {
      const StepSets sets = sets_of(program_, steps[i]);
      std::set<size_t> before;
      for (const auto* memories : {&sets.reads, &sets.writes})
        for (const uint32_t memory : *memories)
          if (const std::optional<size_t> writer = users[memory].writer) before.insert(*writer);
      for (const uint32_t memory : sets.writes)
        before.insert(users[memory].readers.begin(), users[memory].readers.end());
      for (const uint32_t memory : sets.reads) users[memory].readers.push_back(i);
      for (const uint32_t memory : sets.writes) users[memory] = {i, {}};
      for (const size_t step : before) waiting.next[step].push_back(i);
      waiting.on[i] = before.size();
    }
    return waiting;
  }

  /// Of collectives that may go in one call.
  using Kind = std::tuple<CollectiveKind, std::vector<AxisId>, Where, Reduce, Type, Part>;
  Kind kind_of(const CollectiveStep& one, Part part) const {
    return {one.kind, one.axes, one.at, one.reduce, program_.buffer(one.to.buffer).type, executed_as(part)};
  }

  static Step joined(std::span<Step> steps, const std::vector<size_t>& call) {
    Step step = std::move(steps[call.front()]);
    if (call.size() == 1) return step;
    CombinedStep combined;
    combined.collectives.push_back(std::move(std::get<CollectiveStep>(step.what)));
    for (size_t i = 1; i < call.size(); ++i) {
      combined.collectives.push_back(std::move(std::get<CollectiveStep>(steps[call[i]].what)));
      swallow(step, steps[call[i]]);
    }
    step.what = std::move(combined);
    return step;
  }

  Program& program_;
};

}  // namespace

void combine_collectives(Program& program) {
  Combiner combiner(program);
  for_each_list(program, [&](Steps& steps) { combiner.run(steps); });
}

std::vector<uint32_t> calls_of_reshards(const Program& program) {
  std::vector<uint32_t> calls(program.sharded.steps.size());
  std::iota(calls.begin(), calls.end(), 0);
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      if (const auto* combined = std::get_if<CombinedStep>(&step.what))
        for (const CollectiveStep& one : combined->collectives) calls[one.step] = combined->collectives.front().step;
    });
  return calls;
}

}  // namespace mesh
