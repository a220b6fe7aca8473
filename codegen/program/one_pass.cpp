#include "codegen/program/one_pass.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "codegen/layout/cost.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/list_places.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

/// A value that an all-gather moves, and what makes its parts, by where they stand in the list.
struct Updated {
  size_t gathered;                // among the values of the all-gather
  size_t nest;                    // the step
  std::optional<size_t> scatter;  // the step whose result the nest alone reads
  size_t scattered = 0;           // among its values
};

class PassMaker {
 public:
  explicit PassMaker(Program& program)
      : program_(program), keep_(outlive_routine(program)), uses_(count_uses(program)) {}

  void run(Steps& steps) {
    for (Step& step : steps)
      if (!std::holds_alternative<OnePassStep>(step.what))
        for (Steps* body : bodies(step)) run(*body);
    ListPlaces places(program_, steps);
    for (size_t at = 0; at < steps.size(); ++at) at += add_passes(steps, places, at);
  }

 private:
  /// Before the all-gather at `at`, which goes if nothing is left of it. How many steps stand before what follows it,
  /// more than before.
  size_t add_passes(Steps& steps, ListPlaces& places, size_t at) {
    if (!is_call(steps[at], CollectiveKind::all_gather)) return 0;
    std::map<std::optional<size_t>, std::vector<Updated>> by_scatter;
    for (const Updated& one : all_updated(steps, places, at)) by_scatter[one.scatter].push_back(one);
    Steps passes;
    std::vector<size_t> gone;
    std::vector<std::vector<size_t>> taken(at + 1);  // by call: values that passes move
    for (const auto& [scatter, values] : by_scatter) {
      std::vector<size_t> members;
      for (const Updated& one : values) members.push_back(one.nest);
      if (scatter) members.push_back(*scatter);
      if (!may_move(steps, places, members, at)) continue;
      passes.push_back(pass(steps, at, values));
      for (const Updated& one : values) {
        gone.push_back(one.nest);
        taken[at].push_back(one.gathered);
        if (scatter) taken[*scatter].push_back(one.scattered);
      }
    }
    if (passes.empty()) return 0;
    for (size_t call = 0; call <= at; ++call)
      if (!taken[call].empty() && !leave(steps[call], taken[call])) gone.push_back(call);
    const size_t added = passes.size();
    std::ranges::sort(gone);
    const auto before_it = static_cast<size_t>(std::ranges::lower_bound(gone, at) - gone.begin());
    Steps left;
    std::vector<size_t> now(steps.size(), ListPlaces::nowhere);
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i == at) std::ranges::move(passes, std::back_inserter(left));
      if (std::ranges::binary_search(gone, i)) continue;
      now[i] = left.size();
      left.push_back(std::move(steps[i]));
    }
    steps = std::move(left);
    places.rearranged(now);
    for (size_t i = at - before_it; i < at - before_it + added; ++i) places.stands(i, steps[i]);
    return added - gone.size();
  }

  /// Of the values of an all-gather those that a nest each makes, which has nothing to do with the others' nests.
  std::vector<Updated> all_updated(const Steps& steps, const ListPlaces& places, size_t at) const {
    std::vector<Updated> all;
    for (size_t i = 0; i < movements(steps[at]).size(); ++i)
      if (const auto found = updated(steps, places, at, i)) all.push_back(*found);
    std::map<uint32_t, size_t> readers, writers;  // by memory: how many of their nests
    for (const Updated& one : all) {
      const StepSets sets = sets_of(program_, steps[one.nest]);
      for (const uint32_t read : sets.reads) ++readers[read];
      for (const uint32_t written : sets.writes) ++writers[written];
    }
    const auto meets_another = [&](const Updated& one) {
      const StepSets own = sets_of(program_, steps[one.nest]);
      const auto others_write = [&](uint32_t memory) { return writers[memory] > contains(own.writes, memory); };
      const auto others_read = [&](uint32_t memory) { return readers[memory] > contains(own.reads, memory); };
      return std::ranges::any_of(own.writes, others_read) || std::ranges::any_of(own.writes, others_write) ||
             std::ranges::any_of(own.reads, others_write);
    };
    std::erase_if(all, meets_another);
    return all;
  }

  bool is_call(const Step& step, CollectiveKind kind) const {
    const auto moved = movements(step);
    return !moved.empty() && moved.front().kind == kind && moved.front().phase == CollectiveStep::Phase::whole &&
           within_node(program_.sharded.machine, program_.sharded.layout.mesh, moved.front().axes) &&
           std::ranges::all_of(moved,
                               [](const CollectiveStep& one) { return one.from.is_plain() && one.to.is_plain(); });
  }

  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }

  /// Whether one step makes it, and another one alone reads it.
  bool is_handed_over(const Access& access) const {
    return !keep_[root(access)] && uses_.writes[root(access)] == 1 && uses_.reads[root(access)] == 1;
  }

  /// The step before `end` that writes it.
  std::optional<size_t> maker(const Steps& steps, const ListPlaces& places, size_t end, const Access& access) const {
    std::optional<size_t> last;
    for (const size_t one : places.writers(root(access)))
      if (one < end && (!last || one > *last) && contains(sets_of(program_, steps[one]).writes, root(access)))
        last = one;
    return last;
  }

  std::optional<Updated> updated(const Steps& steps, const ListPlaces& places, size_t at, size_t index) const {
    const CollectiveStep& gather = movements(steps[at])[index];
    // A parameter has memory of its own, so that writing it on all ranks meets nothing that others still read.
    const Buffer& to = program_.buffer(gather.to.buffer);
    if (to.kind != BufferKind::parameter || to.view_of || !is_handed_over(gather.from)) return std::nullopt;
    const std::optional<size_t> made = maker(steps, places, at, gather.from);
    const auto* nest = made ? std::get_if<Nest>(&steps[*made].what) : nullptr;
    if (!nest || steps[*made].part != Part::update || !is_elementwise(*nest, gather)) return std::nullopt;
    Updated one{index, *made, std::nullopt};
    for (const Scalar& scalar : nest->passes.front().scalars) {
      const auto* load = std::get_if<Scalar::Load>(&scalar.what);
      if (!load || !is_handed_over(load->access)) continue;
      const std::optional<size_t> from = maker(steps, places, *made, load->access);
      if (!from || !is_call(steps[*from], CollectiveKind::reduce_scatter)) continue;
      const auto sums = movements(steps[*from]);
      for (size_t i = 0; i < sums.size(); ++i)
        if (sums[i].to == load->access && sums[i].axes == gather.axes && sums[i].to_dim == gather.from_dim &&
            sums[i].before == gather.after && sums[i].after == gather.before)
          one.scatter = from, one.scattered = i;
      if (one.scatter) break;
    }
    return one;
  }

  /// Whether each of its iterations stores what it makes of its own elements of the parts that ranks have, or of the
  /// parameter's: it can be made in stretches, in any order.
  bool is_elementwise(const Nest& nest, const CollectiveStep& gather) const {
    if (nest.passes.size() != 1 || !nest.rows.empty() || !nest.bounds.empty()) return false;
    const Pass& pass = nest.passes.front();
    std::vector<LocalDim> dims = nest.outer;
    dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
    if (dims != gather.before || !pass.reductions.empty() || !pass.accumulates.empty()) return false;
    for (const Pass::Store& store : pass.stores) {
      if (!store.to.is_plain() || program_.buffer(store.to.buffer).dims != dims) return false;
      // What is neither stored nor handed on could lie where other ranks still read gradients.
      if (root(store.to) != root(gather.from) && !program_.buffer(storage(program_, store.to.buffer)).stored)
        return false;
    }
    return std::ranges::all_of(pass.scalars, [&](const Scalar& scalar) {
      if (std::holds_alternative<Scalar::Index>(scalar.what) || std::holds_alternative<Scalar::Turn>(scalar.what) ||
          std::holds_alternative<Scalar::Random>(scalar.what))
        return false;
      const auto* load = std::get_if<Scalar::Load>(&scalar.what);
      if (!load) return true;
      const std::vector<LocalDim>& held = program_.buffer(load->access.buffer).dims;
      const bool is_own_whole = held == gather.after && root(load->access) == root(gather.to);
      return load->access.is_plain() && (held.empty() || held == dims || is_own_whole);
    });
  }

  /// Whether these steps may stand in front of `at`.
  bool may_move(const Steps& steps, const ListPlaces& places, const std::vector<size_t>& members, size_t at) const {
    const std::set<size_t> all(members.begin(), members.end());
    for (const size_t member : members) {
      const StepSets own = sets_of(program_, steps[member]);
      for (const size_t between : places.in_the_way(own))
        if (member < between && between < at && !all.contains(between) &&
            conflict(own, sets_of(program_, steps[between])))
          return false;
    }
    return true;
  }

  Step pass(const Steps& steps, size_t at, const std::vector<Updated>& values) const {
    OnePassStep pass;
    std::vector<size_t> gathered, scattered;
    for (const Updated& one : values) {
      gathered.push_back(one.gathered);
      scattered.push_back(one.scattered);
    }
    if (const auto& scatter = values.front().scatter) pass.body.push_back(part_of_call(steps[*scatter], scattered));
    for (const Updated& one : values) pass.body.push_back(steps[one.nest]);
    pass.body.push_back(part_of_call(steps[at], gathered));
    Step made;
    made.part = steps[values.front().nest].part;
    made.what = std::move(pass);
    return made;
  }

  /// The call that moves these of a call's values, in this order.
  static Step part_of_call(const Step& call, const std::vector<size_t>& values) {
    Step part{{}, call.part, call.spans, call.scope, call.notes, call.seconds};
    const auto moved = movements(call);
    if (values.size() == 1) {
      part.what = moved[values.front()];
    } else {
      CombinedStep several;
      for (const size_t value : values) several.collectives.push_back(moved[value]);
      part.what = std::move(several);
    }
    return part;
  }

  /// Takes these values out of a call; false: none is left.
  static bool leave(Step& call, std::vector<size_t> values) {
    std::ranges::sort(values);
    std::vector<size_t> others;
    for (size_t i = 0; i < movements(call).size(); ++i)
      if (!std::ranges::binary_search(values, i)) others.push_back(i);
    if (others.empty()) return false;
    call = part_of_call(call, others);
    return true;
  }

  Program& program_;
  const std::vector<bool> keep_;
  const UseCounts uses_;
};

}  // namespace

void update_in_one_pass(Program& program) {
  PassMaker maker(program);
  for (Routine& routine : program.routines) maker.run(routine.steps);
}

}  // namespace mesh
