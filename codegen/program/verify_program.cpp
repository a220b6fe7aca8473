#include "codegen/program/verify_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "codegen/program/accesses.h"
#include "codegen/program/branches.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/overlap.h"
#include "codegen/program/print_program.h"
#include "codegen/program/verify_memory.h"
#include "codegen/program/verify_pipelines.h"
#include "codegen/program/verify_rings.h"
#include "codegen/program/verify_steps.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

// Of ranks that are told apart one by one: more would take long, and show nothing that these do not.
constexpr size_t most_classes = 128;

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program), classes_(RankClasses::of_single_ranks(program, most_classes)) {}

  std::vector<std::string> run() {
    buffers();
    for (const Routine& routine : program_.routines) {
      routine_ = routine.name;
      written_.assign(program_.buffers.size(), RankSet(classes_.count()));
      for (size_t i = 0; i < program_.buffers.size(); ++i)
        if (program_.buffers[i].stored) written_[i] = classes_.holding({static_cast<uint32_t>(i)});
      for (const EntryPoint& entry : program_.entries)
        for (const Accumulator& one : entry.carried) written_[one.buffer.index] = classes_.all();
      std::span<const Step> forward;
      if (routine.after_forward_of) {
        const Routine& other = program_.routines[*routine.after_forward_of];
        forward = std::span(other.steps).first(forward_steps(other.steps));
        steps(forward);
        if (forward_part_updates(program_, other))
          say(fmt::format("the forward steps of {} update what is stored", other.name));
      }
      steps(routine.steps);
      for (std::string& message : verify_calls(program_, forward, routine.steps))
        say(routine_ + ": " + std::move(message));
      for (std::string& message : verify_rings(program_, routine)) say(routine_ + ": " + std::move(message));
      for (std::string& message : verify_pipelines(program_, routine, classes_))
        say(routine_ + ": " + std::move(message));
      for (const EntryPoint& entry : program_.entries)
        if (&routine == &program_.routines[entry.finish.value_or(entry.run)]) handed_out(entry);
    }
    if (program_.step().results.size() != program_.sharded.graph.metrics.size()) say("a metric has no buffer");
    for (const Metric& metric : program_.sharded.graph.metrics)
      if (program_.sharded.placement(metric.value).is_partial())
        say(fmt::format("metric {} is a partial sum", metric.name));
    for (std::string& message : verify_memory(program_, classes_)) say(std::move(message));
    return std::move(messages_);
  }

 private:
  void say(std::string message) { messages_.push_back(std::move(message)); }

  void buffers() {
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.stored) {
        const Stored& stored = program_.sharded.graph.stored[buffer.stored.index];
        const Placement& placement = program_.sharded.placement(stored.value);
        if (!buffer.view_of && buffer.dims.size() == placement.dims.size())
          for (size_t i = 0; i < buffer.dims.size(); ++i)
            if (buffer.dims[i].placement != placement.dims[i] || buffer.dims[i].dim != stored.type.dims[i])
              say(fmt::format("stored tensor {} does not lie as it is placed", buffer.path));
      }
      if (!buffer.view_of) continue;
      const Buffer& of = program_.buffer(buffer.view_of);
      if (of.view_of) say(fmt::format("{} is a view of a view", buffer.name));
      for (int64_t rank = 0; rank < program_.sharded.layout.mesh.ranks(); ++rank)
        if (local_elements(program_, buffer, rank) != local_elements(program_, of, rank)) {
          say(fmt::format("view {} of {} has {} elements on rank {}, its memory {}", to_string(program_, buffer),
                          to_string(program_, of), local_elements(program_, buffer, rank), rank,
                          local_elements(program_, of, rank)));
          break;
        }
    }
  }

  void steps(std::span<const Step> list) {
    ranks_ = {classes_.all()};
    ends_bodies(list, nullptr);
    const auto enter = [&](const Step& step, const Steps& body) {
      ends_bodies(body, &step);
      around_.push_back(&step);
      ranks_.push_back(classes_.entering(step, ranks_.back()));
    };
    const auto leave = [&](const Step&, const Steps&) {
      around_.pop_back();
      ranks_.pop_back();
    };
    walk(
        list, [&](const Step& step) { this->step(step); }, enter, leave);
  }

  void step(const Step& step) {
    if (const auto* loop = std::get_if<ForStep>(&step.what))
      if (loop->turns != program_.sharded.graph.dim(loop->dim).size) say("a loop has not as many turns as its dim");
    if (const auto* branch = std::get_if<BranchStep>(&step.what)) coordinates(*branch);
    if (has_bodies(step)) return;
    for_each_access(step, [&](const Access& access, Use use) {
      turns(access, step);
      const uint32_t root = storage(program_, access.buffer).index;
      const RankSet ranks = classes_.touching(step, access, use, ranks_.back());
      const bool waits = is_in(step, CollectiveStep::Phase::wait);
      if (use != Use::write && !waits && !includes(written_[root], ranks) && !is_running_sum(program_, step, {root}))
        say(fmt::format("{}: {} reads {} before anything writes it{}", routine_, summary(program_, step),
                        to_string(program_, access), somewhere(root)));
      if (use != Use::read) unite(written_[root], ranks);
    });
    if (const auto* product = std::get_if<ProductStep>(&step.what); product && product->epilogue.rounded_alone)
      written_[storage(program_, product->c.buffer).index] = RankSet(classes_.count());  // it may hold anything

    for (const CollectiveStep& one : movements(step)) group(step, one.axes, makers(one.kind, one.at));
    if (const AttentionStep::Ring* ring = ring_of(step)) group(step, ring->axes, nullptr);
    for (std::string& message : verify_step(program_, step)) say(routine_ + ": " + std::move(message));
  }

  /// Where a read fails: some of the ranks that come there have written it.
  std::string somewhere(uint32_t root) const {
    return intersect(written_[root], ranks_.back()) ? " on all ranks that come here" : "";
  }

  /// An `until` stands at the end of a loop's body.
  void ends_bodies(std::span<const Step> body, const Step* of) {
    const bool loop = of && std::holds_alternative<ForStep>(of->what);
    for (size_t i = 0; i < body.size(); ++i)
      if (std::holds_alternative<UntilStep>(body[i].what) && !(loop && i + 1 == body.size()))
        say(routine_ + ": an until step is not the last one of a loop");
  }

  void coordinates(const BranchStep& branch) {
    const std::vector<MeshAxis>& axes = program_.sharded.layout.mesh.axes;
    bool good = !branch.at.empty() || branch.stage;
    for (const Where& where : branch.at) {
      if (where.owner) {
        good = good && where.coordinates.empty() && is_under_way(where.owner.dim);
        continue;
      }
      good = good && !where.coordinates.empty();
      for (const int64_t coordinate : where.coordinates)
        good = good && coordinate >= 0 && coordinate < axes[where.axis].size;
      good = good && std::ranges::is_sorted(where.coordinates, std::less_equal{});
    }
    if (!good || !std::ranges::is_sorted(branch.at, std::less_equal{}, &Where::axis))
      say(fmt::format("{}: a branch on {} asks for coordinates that its mesh lacks, or not in order", routine_,
                      to_string(program_, branch)));
  }

  /// All ranks of a group come to its collectives; and no others, where `some` coordinates alone make them.
  void group(const Step& step, const std::vector<AxisId>& axes, const Where* some) {
    bool only = some == nullptr;
    for (const Step* around : around_) {
      const auto* loop = std::get_if<ForStep>(&around->what);
      if (loop && loop->own)
        for (const AxisId axis : loop->own->axes)
          if (contains(axes, axis))
            say(fmt::format("{}: {} meets ranks that make other turns of {}", routine_, summary(program_, step),
                            program_.sharded.graph.dim(loop->dim).name));
      const auto* branch = std::get_if<BranchStep>(&around->what);
      if (!branch) continue;
      for (const Where& where : branch->at)
        if (some && where == *some) only = true;
        else if (contains(axes, where.axis))
          if (static_cast<int64_t>(where.coordinates.size()) < program_.sharded.layout.mesh.axes[where.axis].size)
            say(fmt::format("{}: {} waits for ranks that do not come to it: it stands in a branch on {}", routine_,
                            summary(program_, step), to_string(program_, *branch)));
    }
    if (!only)
      say(fmt::format("{}: ranks come to {} that have no term of it: it stands in no branch on {}", routine_,
                      summary(program_, step),
                      mesh::to_string(program_.sharded.graph, program_.sharded.layout.mesh, *some)));
  }

  bool is_under_way(DimId dim) const {
    return std::ranges::any_of(around_, [&](const Step* around) {
      const auto* loop = std::get_if<ForStep>(&around->what);
      return loop && loop->dim == dim;
    });
  }

  /// Whether the ranks that come to the step have the turn's slot: all of them where the dim is whole.
  bool is_owned(const LocalDim& local, const Step& step) const {
    return std::ranges::all_of(owners_of_turn(local.dim, local.placement), [&](const Where& where) {
      const bool of_one = std::ranges::any_of(movements(step),
                                              [&](const CollectiveStep& collective) { return collective.at == where; });
      return of_one || std::ranges::any_of(around_, [&](const Step* around) {
               const auto* branch = std::get_if<BranchStep>(&around->what);
               if (const auto* loop = std::get_if<ForStep>(&around->what)) {
                 const bool stages = loop->order && loop->order->stage && local == loop->order->stages;
                 return stages || (loop->own && loop->dim == where.owner.dim && loop->own->axes == where.owner.axes &&
                                   loop->own->deal == where.owner.deal);
               }
               return branch && std::ranges::count(branch->at, where) > 0;
             });
    });
  }

  void turns(const Access& access, const Step& step) {
    const std::vector<LocalDim>& dims = program_.buffer(access.buffer).dims;
    bool good = access.turns.size() <= dims.size();
    for (const FixedDim& fixed : good ? fixed_dims(access) : std::vector<FixedDim>{}) {
      if (!good || fixed.position >= dims.size()) break;
      const TurnIndex& turn = fixed.turn;
      const LocalDim& local = dims[fixed.position];
      const int64_t slots = program_.sharded.graph.dim(local.dim).size;
      good = is_owned(local, step) && turn.offset >= 0;
      good = good && (local.placement.axes.empty() || (turn.loop && turn.period == 0));
      if (!turn.loop) {
        good = good && turn.offset < slots && turn.period == 0;
        continue;
      }
      good = good && std::ranges::any_of(around_, [&](const Step* around) {
               const auto* loop = std::get_if<ForStep>(&around->what);
               if (loop && loop->order && loop->order->stage == turn.loop)
                 return turn.offset == 0 && turn.period == 0 && loop->order->stages == local;
               if (!loop || loop->loop != turn.loop) return false;
               return turn.period > 0 ? turn.period == slots : turn.offset == 0 && loop->dim == local.dim;
             });
    }
    if (!good)
      say(fmt::format("{}: {} indexes {} by a turn that is not its dim's, or a slot that it lacks", routine_,
                      summary(program_, step), program_.buffer(access.buffer).name));
  }

  void must_be_written(BufferId id, const std::string& what) {
    const RankSet& written = written_[storage(program_, id).index];
    if (includes(written, classes_.holding(id))) return;
    const bool some = std::ranges::find(written, true) != written.end();
    say(fmt::format("{} is {} written", what, some ? "not on every rank" : "never"));
  }

  void handed_out(const EntryPoint& entry) {
    for (const auto& [name, id] : entry.wanted) must_be_written(id, "wanted value " + name);
    for (const EntryPoint::Output& output : entry.outputs) must_be_written(output.buffer, "output " + output.name);
    for (BufferId id : entry.results) {
      const Buffer& buffer = program_.buffer(id);
      must_be_written(id, "metric " + buffer.name);
      if (!buffer.dims.empty() || (buffer.type != Type::f32 && buffer.type != Type::f64))
        say(fmt::format("metric {} is {}, not a real number", buffer.name, to_string(program_, buffer)));
    }
  }

  const Program& program_;
  std::vector<std::string> messages_;
  std::string routine_;
  RankClasses classes_;
  std::vector<RankSet> written_;     // by buffer: the ranks that have written it
  std::vector<const Step*> around_;  // whose bodies are being walked through, outermost first
  std::vector<RankSet> ranks_;       // that come to the routine, and to each of those bodies
};

}  // namespace

std::vector<std::string> verify_program(const Program& program) { return Verifier(program).run(); }

}  // namespace mesh
