#include "codegen/program/memory_curve.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/program/branches.h"
#include "codegen/program/largest_values.h"
#include "codegen/program/lifetimes.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

/// What is in use at one step after the other.
class InUse {
 public:
  InUse(const std::vector<Buffer>& buffers, const std::vector<Lifetime>& life) : buffers_(buffers), life_(life) {}

  void begins(size_t buffer) {
    change(buffer, [](Users& users, const User& user) { users.insert(user); });
  }
  void ends(size_t buffer) {
    change(buffer, [](Users& users, const User& user) { users.erase(user); });
  }
  MemoryCurve::Point point(Part part) const { return {bytes_, by_kind_, part}; }
  std::vector<const Buffer*> held() const {
    std::vector<const Buffer*> held;
    for (const auto& [place, users] : places_)
      if (!users.empty()) held.push_back(&buffers_[users.begin()->second]);
    return held;
  }

 private:
  using User = std::pair<int, size_t>;  // since when, negative; the buffer
  using Users = std::set<User>;

  /// A buffer that takes over the place of one that dies in this step stands for both.
  template <class Change>
  void change(size_t buffer, Change change) {
    Users& users = places_[{buffers_[buffer].space, buffers_[buffer].offset}];
    if (!users.empty()) count(buffers_[users.begin()->second], -1);
    change(users, {-life_[buffer].first, buffer});
    if (!users.empty()) count(buffers_[users.begin()->second], 1);
  }

  void count(const Buffer& buffer, int64_t times) {
    bytes_ += times * bytes_of(buffer);
    if ((by_kind_[buffer.kind] += times * bytes_of(buffer)) == 0) by_kind_.erase(buffer.kind);
  }

  const std::vector<Buffer>& buffers_;
  const std::vector<Lifetime>& life_;
  std::map<std::pair<Space, int64_t>, Users> places_;
  int64_t bytes_ = 0;
  std::map<BufferKind, int64_t> by_kind_;
};

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
    const Changes changes = changes_of(alike);
    InUse now(program_.buffers, life_);
    for (size_t step = 0; step < changes.parts.size(); ++step) {
      changes.apply(step, now);
      curve.points.push_back(now.point(changes.parts[step]));
    }
    if (curve.points.empty()) return curve;
    const auto peak = std::ranges::max_element(curve.points, {}, &MemoryCurve::Point::bytes);
    curve.peak = static_cast<size_t>(peak - curve.points.begin());
    InUse then(program_.buffers, life_);
    for (size_t step = 0; step <= curve.peak; ++step) changes.apply(step, then);
    curve.at_peak = then.held();
    std::ranges::stable_sort(curve.at_peak, std::greater{}, [](const Buffer* buffer) { return bytes_of(*buffer); });
    return curve;
  }

  struct Changes {
    std::vector<Part> parts;                      // by step
    std::vector<std::vector<size_t>> begin, end;  // by step: buffers in use from it on, and up to the one before
    void apply(size_t step, InUse& now) const {
      for (const size_t buffer : end[step]) now.ends(buffer);
      for (const size_t buffer : begin[step]) now.begins(buffer);
    }
  };

  Changes changes_of(size_t alike) const {
    Changes changes;
    for_each_numbered(program_.routines[routine_].steps,
                      [&](const Step& step, int, int) { changes.parts.push_back(step.part); });
    const size_t steps = changes.parts.size();
    changes.begin.resize(steps + 1);
    changes.end.resize(steps + 1);
    for (size_t i = 0; i < life_.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      const Lifetime& life = life_[i];
      const bool always = life.routine == -1;
      if (buffer.view_of || buffer.elements == 0 || (!life.ranks.empty() && !life.ranks[alike])) continue;
      if (!always && life.routine != static_cast<int>(routine_)) continue;
      changes.begin[always ? 0 : static_cast<size_t>(life.first)].push_back(i);
      if (!always) changes.end[std::min(steps, static_cast<size_t>(life.last) + 1)].push_back(i);
    }
    return changes;
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
