#include "tests/mutation/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/graph/builder.h"
#include "codegen/program/branches.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

/// Makes the fault at one place and says what it did.
using Place = std::function<Mutation()>;

std::string text_of(const Program& program, const CollectiveStep& step) {
  std::string axes;
  for (const AxisId axis : step.axes) axes += (axes.empty() ? "" : " * ") + program.sharded.layout.mesh.axes[axis].name;
  return fmt::format("{} of {} over {} ({})", name_of(step.kind), program.buffer(step.from.buffer).name, axes,
                     program.sharded.steps[step.step].reason);
}

class Finder {
 public:
  Finder(Program& program, Fault fault) : program_(program), fault_(fault) {
    Steps& steps = program.routines[program.step().run].steps;
    std::vector<Steps*> lists{&steps};
    const auto visit = [&](Step& step) {
      if (!has_bodies(step)) look(*lists.back(), static_cast<size_t>(&step - lists.back()->data()));
    };
    const auto enter = [&](Step& step, Steps& body) {
      lists.push_back(&body);
      around_.push_back(&step);
    };
    const auto leave = [&](const Step&, const Steps&) {
      lists.pop_back();
      around_.pop_back();
    };
    walk(steps, visit, enter, leave);
  }
  std::vector<Place> places;

 private:
  const MeshShape& mesh() const { return program_.sharded.layout.mesh; }

  /// The faults that can be made at step i.
  void look(Steps& steps, size_t i) {
    if (fault_ == Fault::drop || fault_ == Fault::skip) {
      leave_out(steps, i);
      if (std::holds_alternative<CombinedStep>(steps[i].what)) leave_out_one(steps, i);
    }
    if (fault_ == Fault::swap) swap(steps, i);
    if (auto* nest = std::get_if<Nest>(&steps[i].what)) {
      if (fault_ == Fault::scale) unscale(*nest);
      if (slices()) shift(*nest);
    }
    if (auto* copy = std::get_if<CopyStep>(&steps[i].what); copy && slices()) shift(*copy);
  }

  /// Whether a rank executes the steps that are looked at.
  bool comes(int64_t rank) const {
    return std::ranges::all_of(around_, [&](const Step* step) {
      const auto* branch = std::get_if<BranchStep>(&step->what);
      return !branch || may_enter(mesh(), *branch, rank);
    });
  }

  // ---- collectives

  /// The collective at step i, if it begins there and its group has several ranks.
  const CollectiveStep* collective(const Steps& steps, size_t i) const {
    const auto* step = std::get_if<CollectiveStep>(&steps[i].what);
    return step && step->phase != CollectiveStep::Phase::wait && mesh().size(step->axes) > 1 ? step : nullptr;
  }
  /// Another rank for each place, of those that come there.
  int64_t one_rank() const {
    const int64_t ranks = mesh().ranks();
    int64_t rank = static_cast<int64_t>(places.size()) % ranks;
    for (int64_t tried = 0; tried < ranks && !comes(rank); ++tried) rank = (rank + 1) % ranks;
    return rank;
  }

  /// A step in its list.
  struct Listed {
    Steps* steps;
    size_t at;
  };
  /// Those that wait for what step i starts: behind it, and in routines that begin with the same forward steps.
  std::vector<Listed> waits_of(Steps& steps, size_t i) {
    std::vector<Listed> found;
    if (const size_t wait = wait_of(steps, i); wait < steps.size()) found.push_back({&steps, wait});
    const uint32_t call = movements(steps[i]).front().step;
    for (Routine& routine : program_.routines)
      for (size_t at = 0; routine.after_forward_of && at < routine.steps.size(); ++at)
        if (is_in(routine.steps[at], CollectiveStep::Phase::wait) && movements(routine.steps[at]).front().step == call)
          found.push_back({&routine.steps, at});
    return found;
  }

  void leave_out(Steps& steps, size_t i) {
    if (!collective(steps, i)) return;
    const std::optional<int64_t> rank = fault_ == Fault::skip ? std::optional(one_rank()) : std::nullopt;
    places.push_back([this, &steps, i, rank] {
      const std::string what = "left out " + text_of(program_, *collective(steps, i));
      for (const Listed& wait : waits_of(steps, i))
        wait.steps->erase(wait.steps->begin() + static_cast<std::ptrdiff_t>(wait.at));
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
      return Mutation{what, rank};
    });
  }

  /// One of the collectives that go in one call.
  void leave_out_one(Steps& steps, size_t i) {
    const CombinedStep& combined = std::get<CombinedStep>(steps[i].what);
    if (combined.collectives.front().phase == CollectiveStep::Phase::wait) return;
    if (mesh().size(combined.collectives.front().axes) < 2) return;
    for (size_t k = 0; k < combined.collectives.size(); ++k) {
      const std::optional<int64_t> rank = fault_ == Fault::skip ? std::optional(one_rank()) : std::nullopt;
      places.push_back([this, &steps, i, k, rank] {
        const auto call = [](const Listed& of) -> auto& {
          return std::get<CombinedStep>((*of.steps)[of.at].what).collectives;
        };
        const Listed start{&steps, i};
        const std::string what = "left out " + text_of(program_, call(start)[k]);
        std::vector<Listed> all = waits_of(steps, i);
        all.push_back(start);
        for (const Listed& one : all) call(one).erase(call(one).begin() + static_cast<std::ptrdiff_t>(k));
        return Mutation{what, rank};
      });
    }
  }

  void swap(Steps& steps, size_t i) {
    const CollectiveStep* first = collective(steps, i);
    if (!first) return;
    size_t j = i + 1;
    while (j < steps.size() && !(collective(steps, j) && collective(steps, j)->axes == first->axes)) ++j;
    if (j == steps.size() || wait_of(steps, i) < j) return;
    places.push_back([this, &steps, i, j, rank = one_rank()] {
      const std::string what = fmt::format("swapped {} and {}", text_of(program_, *collective(steps, i)),
                                           text_of(program_, *collective(steps, j)));
      std::swap(steps[i], steps[j]);
      return Mutation{what, rank};
    });
  }

  // ---- numbers

  static bool is_count(double number) { return number >= 2 && number == std::floor(number); }
  /// One over a whole number, as f32 or f64 rounds it.
  static bool is_share(double number) {
    return number > 0 && number < 0.75 && std::fabs(1 / number - std::round(1 / number)) < 1e-6 / number;
  }
  static const Scalar::Literal* literal(const Pass& pass, int scalar) {
    return std::get_if<Scalar::Literal>(&pass.scalars[static_cast<size_t>(scalar)].what);
  }

  void unscale(Nest& nest) {
    for (Pass& pass : nest.passes) {
      for (size_t i = 0; i < pass.scalars.size(); ++i) {
        const auto* apply = std::get_if<Scalar::Apply>(&pass.scalars[i].what);
        if (!apply || (apply->function != MapFunction::divide && apply->function != MapFunction::multiply)) continue;
        for (size_t side = 0; side < 2; ++side) {
          const auto* number = literal(pass, apply->operands[side]);
          const bool divides = apply->function == MapFunction::divide && side == 1 && number && is_count(number->value);
          const bool scales = apply->function == MapFunction::multiply && number && is_share(number->value);
          if (!divides && !scales) continue;
          places.push_back([&pass, i, other = apply->operands[1 - side], divides, value = number->value] {
            pass.scalars[i].what = Scalar::Apply{MapFunction::copy, {other}};
            return Mutation{fmt::format("left out {} {}", divides ? "/" : "*", value), {}};
          });
        }
      }
      for (Pass::Store& store : pass.stores)
        if (const auto* number = literal(pass, store.scalar); number && is_share(number->value))
          places.push_back([this, &pass, &store, value = number->value] {
            pass.scalars.push_back({Scalar::Literal{1}, pass.scalars[static_cast<size_t>(store.scalar)].type});
            store.scalar = static_cast<int>(pass.scalars.size() - 1);
            return Mutation{fmt::format("stored 1 for {} in {}", value, program_.buffer(store.to.buffer).name), {}};
          });
    }
  }

  // ---- slices

  bool slices() const { return fault_ == Fault::shift || fault_ == Fault::raise; }

  void shift(Nest& nest) {
    for (Pass& pass : nest.passes) {
      std::vector<LocalDim> dims = nest.outer;
      dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
      for (size_t i = 0; i < pass.scalars.size(); ++i)
        if (auto* load = std::get_if<Scalar::Load>(&pass.scalars[i].what))
          shift(load->access, dims, [&pass, i] { return raise(pass, i); });
    }
  }
  void shift(CopyStep& copy) {
    const auto target = dims_of(program_, copy.to);
    shift(copy.from, {target.begin(), target.end()}, [] { return std::string(); });
  }

  /// Where `dims` iterate over a part of what `access` holds: the row before the part, or the one after it.
  void shift(Access& access, const std::vector<LocalDim>& dims, const std::function<std::string()>& raise) {
    const auto held = dims_of(program_, access);
    for (size_t at = 0; at < held.size(); ++at) {
      const size_t position = access.turns.size() + at;
      if (map_at(access, position)) {
        if (fault_ == Fault::raise) places.push_back([raise] { return Mutation{raise(), {}}; });
        else
          places.push_back([this, &access, position, dims] {
            return Mutation{lead_astray(access, position, dims), {}};
          });
        continue;
      }
      const auto part = std::ranges::find(dims, held[at].dim, &LocalDim::dim);
      if (part == dims.end() || *part == held[at]) continue;
      for (int64_t rank = mesh().ranks(); rank-- > 0;) {
        const Range own = local_range(program_, *part, rank), whole = local_range(program_, held[at], rank);
        const bool works = comes(rank) && std::ranges::all_of(dims, [&](const LocalDim& d) {
                             return local_extent(program_, d, rank) > 0;
                           });
        const int64_t rows = own.begin > whole.begin ? -1 : own.end < whole.end ? 1 : 0;
        if (!works || rows == 0) continue;
        if (fault_ == Fault::raise) places.push_back([raise, rank] { return Mutation{raise(), rank}; });
        else
          places.push_back([this, &access, at, rows, rank, dim = held[at].dim] {
            const std::string what = fmt::format("read {} a row of {} too {}", program_.buffer(access.buffer).name,
                                                 program_.sharded.graph.dim(dim).name, rows < 0 ? "early" : "late");
            return Mutation{displace(access, at, rows, rank) ? what : "", rank};
          });
        break;
      }
    }
  }

  /// Lets a map begin one row later, or earlier where that would lead outside.
  std::string lead_astray(Access& access, size_t position, const std::vector<LocalDim>& dims) {
    IndexMap& map = *std::ranges::find(access.maps, position, &IndexMap::position);
    for (const int64_t rows : {1, -2}) {
      map.begin += rows;
      const Address address = address_of(program_, access, dims);
      const bool inside = std::ranges::all_of(address.mapped, [&](const Address::Mapped& mapped) {
        return mapped.map.outside || always_inside(program_, mapped);
      });
      if (inside)
        return fmt::format("read {} of {} a row too {}", program_.buffer(access.buffer).name,
                           program_.sharded.graph.dim(program_.buffer(access.buffer).dims[position].dim).name,
                           rows > 0 ? "late" : "early");
    }
    map.begin += 1;
    return {};
  }

  /// Reads through another buffer, `rows` rows along a dim of the access away; not where that would leave the space.
  bool displace(Access& access, size_t dim, int64_t rows, int64_t rank) {
    Buffer displaced = program_.buffer(access.buffer);
    const auto bytes = static_cast<int64_t>(meshrt::size_of(displaced.type));
    displaced.offset += rows * stride(program_, displaced, access.turns.size() + dim, rank) * bytes;
    const int64_t end = displaced.offset + local_elements(program_, displaced, rank) * bytes;
    if (displaced.offset < 0 || end > (displaced.space == Space::arena ? program_.memory.arena : program_.memory.own))
      return false;
    displaced.view_of = {};
    displaced.stored = {};
    displaced.name += "_displaced";
    access.buffer = BufferId{static_cast<uint32_t>(program_.buffers.size())};
    program_.buffers.push_back(std::move(displaced));
    return true;
  }

  /// Adds 1 to entry `i` of the pass.
  static std::string raise(Pass& pass, size_t i) {
    const Type type = pass.scalars[i].type;
    if (type == Type::boolean) return {};
    const auto place = [&](int& scalar) { scalar += scalar >= static_cast<int>(i) ? 2 : 0; };
    for (size_t k = i + 1; k < pass.scalars.size(); ++k)
      if (auto* apply = std::get_if<Scalar::Apply>(&pass.scalars[k].what))
        std::ranges::for_each(apply->operands, place);
    for (auto& item : pass.stores) place(item.scalar);
    for (auto& item : pass.reductions) place(item.scalar);
    for (auto& item : pass.accumulates) place(item.scalar);
    const int load = static_cast<int>(i);
    pass.scalars.insert(
        pass.scalars.begin() + load + 1,
        {Scalar{Scalar::Literal{1}, type}, Scalar{Scalar::Apply{MapFunction::add, {load, load + 1}}, type}});
    return "raised a number that is read";
  }

  Program& program_;
  Fault fault_;
  std::vector<const Step*> around_;  // whose bodies are being walked through
};

}  // namespace

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::drop: return "drop";
    case Fault::skip: return "skip";
    case Fault::swap: return "swap";
    case Fault::scale: return "scale";
    case Fault::shift: return "shift";
    case Fault::raise: return "raise";
  }
  return "?";
}

int64_t count_faults(const Program& program, Fault fault) {
  return static_cast<int64_t>(Finder(const_cast<Program&>(program), fault).places.size());  // finding changes nothing
}

Mutation mutate(Program& program, Fault fault, int64_t number) {
  const Finder finder(program, fault);
  if (number < 1 || number > static_cast<int64_t>(finder.places.size())) internal_error("there is no such fault");
  return finder.places[static_cast<size_t>(number - 1)]();
}

}  // namespace mesh
