#include "codegen/program/memory_curve.h"

#include <algorithm>
#include <utility>

#include "codegen/program/branches.h"
#include "codegen/program/largest_values.h"
#include "codegen/program/lifetimes.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

class Curve {
 public:
  Curve(const Program& program, uint32_t routine)
      : program_(program), routine_(routine), life_(lifetimes(program)), classes_(program) {}

  MemoryCurve run() {
    MemoryCurve best;
    for (size_t alike = 0; alike < classes_.count(); ++alike) {
      MemoryCurve curve = of_class(alike);
      if (best.points.empty() || most(curve) > most(best)) best = std::move(curve);
    }
    find_loops(best);
    return best;
  }

 private:
  static int64_t most(const MemoryCurve& curve) { return curve.points.empty() ? 0 : curve.points[curve.peak].bytes; }

  MemoryCurve of_class(size_t alike) const {
    MemoryCurve curve;
    for_each_numbered(program_.routines[routine_].steps, [&](const Step& step, int number, int) {
      const std::vector<const Buffer*> held = held_at(number, alike);
      MemoryCurve::Point point{0, {}, step.part};
      for (const Buffer* buffer : held) {
        point.bytes += bytes_of(*buffer);
        point.by_kind[buffer->kind] += bytes_of(*buffer);
      }
      curve.points.push_back(std::move(point));
      if (curve.points.size() > 1 && curve.points.back().bytes <= most(curve)) return;
      curve.peak = curve.points.size() - 1;
      curve.at_peak = held;
    });
    std::ranges::stable_sort(curve.at_peak, std::greater{}, [](const Buffer* buffer) { return bytes_of(*buffer); });
    return curve;
  }

  /// What lies in memory of its own: a buffer that takes over the place of one that dies in this step stands for both.
  std::vector<const Buffer*> held_at(int step, size_t alike) const {
    Lifetime now{static_cast<int>(routine_), step, step};
    now.ranks.resize(classes_.count());
    now.ranks[alike] = true;
    std::map<std::pair<Space, int64_t>, size_t> places;
    for (size_t i = 0; i < life_.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.view_of || buffer.elements == 0 || !life_[i].meets(now)) continue;
      const auto [at, is_new] = places.try_emplace({buffer.space, buffer.offset}, i);
      if (!is_new && life_[i].first > life_[at->second].first) at->second = i;
    }
    std::vector<const Buffer*> held;
    for (const auto& [place, index] : places) held.push_back(&program_.buffers[index]);
    return held;
  }

  void find_loops(MemoryCurve& curve) const {
    size_t next = 0;
    std::vector<size_t> open;
    walk(
        program_.routines[routine_].steps, [&](const Step& step) { next += has_bodies(step) ? 0 : 1; },
        [&](const Step& step, const Steps&) {
          const auto* loop = std::get_if<ForStep>(&step.what);
          const bool whole = loop && loop->only == ForStep::Only::every;
          open.push_back(whole ? curve.loops.size() : none);
          if (whole) curve.loops.push_back({loop->dim, loop->turns, next, next});
        },
        [&](const Step&, const Steps&) {
          if (open.back() != none && next > 0) curve.loops[open.back()].last = next - 1;
          open.pop_back();
        });
  }

  static constexpr size_t none = ~size_t{0};

  const Program& program_;
  uint32_t routine_;
  std::vector<Lifetime> life_;
  RankClasses classes_;
};

}  // namespace

MemoryCurve memory_curve(const Program& program, uint32_t routine) { return Curve(program, routine).run(); }

}  // namespace mesh
