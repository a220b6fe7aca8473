// fuse_rounding.cpp: parameters of f32 that products take in bf16 are rounded as products read them: a copy in bf16
// would be written, kept from forward to backward, and read as often. Before nests are merged, so each nest here is
// one operation.
#include <algorithm>
#include <map>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/single_map.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

class RoundingFuser {
 public:
  explicit RoundingFuser(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {
    for (const Routine& routine : program.routines) note_loops(routine.steps);
  }

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (Step& step : steps) fuse_into_readers(step);
    });
    uses_.sweep();
  }

 private:
  const Buffer& buffer(const Access& access) const { return program_.buffer(access.buffer); }

  using Loops = std::vector<const ForStep*>;

  void note_loops(const Steps& steps) {
    Loops loops;
    walk(
        steps, [&](const Step& step) { loops_[&step] = loops; },
        [&](const Step& step, const Steps&) {
          if (const auto* loop = std::get_if<ForStep>(&step.what)) loops.push_back(loop);
        },
        [&](const Step& step, const Steps&) {
          if (std::holds_alternative<ForStep>(step.what)) loops.pop_back();
        });
  }

  struct Rounding {
    Access from, to;
  };
  /// Of a step that makes a copy of a parameter in bf16, and does nothing else.
  std::optional<Rounding> rounding(const Step& step) const {
    const std::optional<SingleMap> map = single_map(step);
    if (!map || map->function != MapFunction::cast || !map->load(0)) return {};
    const Rounding made{*map->load(0), map->to};
    return rounds_parameter(made.from, made.to) ? std::optional(made) : std::nullopt;
  }

  void fuse_into_readers(Step& step) {
    if (uses_.is_removed(step)) return;
    const std::optional<Rounding> made = rounding(step);
    if (!made) return;
    // Where turns are computed again R makes the same copy: all of them go, or none.
    const std::vector<Step*> writers = uses_.writers(made->to), readers = uses_.readers(made->to);
    const auto rounds_too = [&](const Step* writer) {
      const std::optional<Rounding> other = rounding(*writer);
      if (!other || !as_often(*writer, step, made->to)) return false;
      return made->to.turns.empty() ? other->from == made->from && other->to == made->to
                                    : other->from.buffer == made->from.buffer;
    };
    if (!std::ranges::all_of(writers, rounds_too)) return;
    if (std::ranges::any_of(readers, [&](const Step* reader) { return !may_round(step, *reader, made->to); })) return;
    for (Step* reader : readers)
      uses_.change(*reader, [&] {
        auto& product = std::get<ProductStep>(reader->what);
        if (made->to.turns.empty()) product.b = made->from;
        else product.b.buffer = made->from.buffer;
        product.rounds_b = true;
      });
    for (Step* writer : writers) {
      if (!readers.empty()) swallow(*readers.front(), *writer);
      uses_.removed(*writer);
    }
  }

  /// Whether `to` is in bf16 what `from`, a parameter that changes in the update alone, is in f32: all of it place for
  /// place, or what a turn has of it.
  bool rounds_parameter(const Access& from, const Access& to) const {
    const Buffer &source = buffer(from), &target = buffer(to);
    if (source.kind != BufferKind::parameter || source.view_of || target.view_of || keep_[to.buffer.index])
      return false;
    if (source.type != Type::f32 || target.type != Type::bf16) return false;
    const bool all = source.dims == target.dims && from.turns == to.turns;
    const bool of_turn = to.turns.empty() && same_dims(program_, from, to);
    return (all || of_turn) &&
           std::ranges::all_of(uses_.writers(from), [](const Step* step) { return part_of(*step) == Part::update; });
  }

  /// Whether the reader is a product of more than a few rows of bf16 with it, as often executed as it is rounded:
  /// where it is read again and again, position by position of a text, half the bytes are worth a copy.
  bool may_round(const Step& step, const Step& reader, const Access& to) const {
    const auto* product = std::get_if<ProductStep>(&reader.what);
    if (!product || product->b.buffer != to.buffer || product->a.buffer == to.buffer) return false;
    if (buffer(product->a).type != Type::bf16 || !as_often(step, reader, to)) return false;
    constexpr int64_t few = 16;  // rows: reading b takes longer than to multiply, and a copy in bf16 is half of it
    int64_t rows = 1;
    for (const LocalDim& local : dims_of(program_, product->c))
      if (std::ranges::count(product->rows, local.dim) > 0) rows *= largest_extent(program_, local);
    return rows > few;
  }

  /// Whether the two are executed as often: under the same loops, or, of what is kept of every turn, under loops over
  /// the same dims.
  bool as_often(const Step& one, const Step& other, const Access& to) const {
    const Loops &around = loops_.at(&one), &others = loops_.at(&other);
    return to.turns.empty() ? around == others : std::ranges::equal(around, others, {}, &ForStep::dim, &ForStep::dim);
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
  std::map<const Step*, Loops> loops_;  // around each step
};

}  // namespace

void fuse_rounding(Program& program) { RoundingFuser(program).run(); }

}  // namespace mesh
