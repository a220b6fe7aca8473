#include "codegen/program/combine.h"

#include <algorithm>

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
    std::vector<StepSets> sets;
    for (const Step& step : steps) sets.push_back(sets_of(program_, step));
    std::vector<bool> done(steps.size());
    const auto ready = [&](size_t i) {
      for (size_t k = 0; k < i; ++k)
        if (!done[k] && conflict(sets[k], sets[i])) return false;
      return !done[i];
    };
    for (size_t left = steps.size(); left > 0;) {
      const size_t before = left;
      for (size_t i = 0; i < steps.size(); ++i) {
        if (combinable(steps[i]) || !ready(i)) continue;
        out.push_back(std::move(steps[i]));
        done[i] = true;
        --left;
      }
      if (left < before) continue;
      std::vector<size_t> call;
      for (size_t i = 0; i < steps.size(); ++i)
        if (ready(i) && (call.empty() || together(steps[call.front()], steps[i]))) call.push_back(i);
      for (const size_t i : call) done[i] = true;
      left -= call.size();
      out.push_back(joined(steps, call));
    }
  }

  bool together(const Step& a, const Step& b) const {
    const CollectiveStep &one = *combinable(a), &other = *combinable(b);
    const auto type = [&](const CollectiveStep& step) { return program_.buffer(step.to.buffer).type; };
    return one.kind == other.kind && one.axes == other.axes && one.at == other.at && one.reduce == other.reduce &&
           type(one) == type(other) && mesh::together(a.part, b.part);
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
  std::vector<uint32_t> call(program.sharded.steps.size());
  for (uint32_t i = 0; i < call.size(); ++i) call[i] = i;
  for (const Routine& routine : program.routines)
    for_each_step(routine.steps, [&](const Step& step) {
      if (const auto* combined = std::get_if<CombinedStep>(&step.what))
        for (const CollectiveStep& one : combined->collectives) call[one.step] = combined->collectives.front().step;
    });
  return call;
}

}  // namespace mesh
