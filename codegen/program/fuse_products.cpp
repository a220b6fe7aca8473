// fuse_products.cpp: what follows a product moves into it. Before nests are merged, so each nest here is one operation.
#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/lowering.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

bool is_activation(MapFunction f) {
  return f == MapFunction::relu || f == MapFunction::gelu || f == MapFunction::gelu_tanh || f == MapFunction::silu;
}

std::optional<MapFunction> slope_of(MapFunction f) {
  switch (f) {
    case MapFunction::gelu: return MapFunction::gelu_slope;
    case MapFunction::gelu_tanh: return MapFunction::gelu_tanh_slope;
    case MapFunction::silu: return MapFunction::silu_slope;
    default: return {};
  }
}

/// A nest of one elementwise operation with one result, every element at its own index.
struct Single {
  MapFunction function;
  std::vector<const Scalar*> operands;
  Access to;
  const std::vector<LocalDim>* dims;
  const Access* load(size_t i) const {
    const auto* load = std::get_if<Scalar::Load>(&operands[i]->what);
    return load ? &load->access : nullptr;
  }
};

std::optional<Single> single(const Step& step) {
  const auto* nest = std::get_if<Nest>(&step.what);
  if (!nest || !nest->outer.empty() || nest->passes.size() != 1) return {};
  const Pass& pass = nest->passes[0];
  if (pass.stores.size() != 1 || !pass.reductions.empty() || !pass.accumulates.empty()) return {};
  const auto* apply = std::get_if<Scalar::Apply>(&pass.scalars[static_cast<size_t>(pass.stores[0].scalar)].what);
  if (!apply || static_cast<size_t>(pass.stores[0].scalar) + 1 != pass.scalars.size()) return {};
  const auto is_mapped = [](const Scalar& scalar) {
    const auto* load = std::get_if<Scalar::Load>(&scalar.what);
    return load && !load->access.maps.empty();
  };
  if (!pass.stores[0].to.maps.empty() || std::any_of(pass.scalars.begin(), pass.scalars.end(), is_mapped)) return {};
  Single result{apply->function, {}, pass.stores[0].to, &pass.inner};
  for (int operand : apply->operands) result.operands.push_back(&pass.scalars[static_cast<size_t>(operand)]);
  return result;
}

bool same_dims(const Program& program, const Access& a, const Access& b) {
  return std::ranges::equal(dims_of(program, a), dims_of(program, b));
}

class ProductFuser {
 public:
  explicit ProductFuser(Program& program) : program_(program), keep_(outlive_routine(program)) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) { run(steps); });
  }

 private:
  void run(Steps& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!std::holds_alternative<ProductStep>(steps[i].what)) continue;
      while (absorb(steps, i)) {}
      sum_columns(steps, i);
    }
    for (size_t i = 0; i + 1 < steps.size(); ++i)
      if (std::holds_alternative<ProductStep>(steps[i].what)) write_carry(steps, i);
  }

  ProductStep& product(std::vector<Step>& steps, size_t i) { return std::get<ProductStep>(steps[i].what); }
  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }

  /// Takes the nest that reads the product's result into the epilogue. The nest moves up to the product, so nothing in
  /// between may write what it reads, or touch what it writes.
  bool absorb(std::vector<Step>& steps, size_t i) {
    ProductStep& p = product(steps, i);
    if (keep_[root(p.c)] || program_.buffer(p.c.buffer).type != Type::f32) {
      if (program_.buffer(p.c.buffer).type != Type::f64 || keep_[root(p.c)]) return false;
    }
    size_t at = i + 1;
    std::vector<StepSets> between;
    while (at < steps.size() && !contains(sets_of(program_, steps[at]).reads, root(p.c))) {
      between.push_back(sets_of(program_, steps[at]));
      ++at;
    }
    if (at == steps.size()) return false;
    const std::optional<Single> next = single(steps[at]);
    if (!next || !same_dims(program_, next->to, p.c) ||
        program_.buffer(next->to.buffer).type != program_.buffer(p.c.buffer).type)
      return false;
    const StepSets own = sets_of(program_, steps[at]);
    for (const StepSets& other : between)
      if (conflict(other, own)) return false;
    ProductStep::Epilogue epilogue = p.epilogue;
    if (!extend(epilogue, p, *next)) return false;
    const Access old = p.c;
    const bool elsewhere = !readers_elsewhere(old, steps[at]).empty();
    if (touches(epilogue, p, next->to)) {  // what is kept from step to step, and added to
      if (elsewhere || epilogue.plus != next->to || touches(p.epilogue, p, next->to) || !can_accumulate(p))
        return false;
      epilogue.plus.reset();
      p.accumulate = true;
    }
    if (elsewhere) {
      if (is_made_elsewhere(old, steps[i])) return false;  // its readers read what that makes, too
      if (!is_activation(next->function)) {
        if (!all_repeat(old, *next, steps[at])) return false;
        p.epilogue = epilogue;
        return true;
      }
      if (!hand_slope(old, *next, steps[at], epilogue)) return false;
    }
    p.epilogue = epilogue;
    p.c = next->to;
    swallow(steps[i], steps[at]);
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  }

  /// Whether the product reads, or writes beside its result, the memory of `to`.
  bool touches(const ProductStep::Epilogue& epilogue, const ProductStep& p, const Access& to) const {
    if (root(p.a) == root(to) || root(p.b) == root(to)) return true;
    const auto in = {epilogue.bias, epilogue.slope, epilogue.times, epilogue.plus, p.column_sum};
    return std::any_of(in.begin(), in.end(), [&](const auto& other) { return other && root(*other) == root(to); });
  }

  /// Whether nothing happens to the sum of products on its way to the result.
  static bool can_accumulate(const ProductStep& p) {
    return !p.accumulate && !p.column_sum && !p.epilogue.bias && !p.epilogue.activation && !p.epilogue.times;
  }

  /// The epilogue with the operation added, where its order allows: bias, activation, times, plus.
  bool extend(ProductStep::Epilogue& epilogue, const ProductStep& p, const Single& next) const {
    if (is_activation(next.function)) {
      if (epilogue.activation || epilogue.times || epilogue.plus || !next.load(0) || *next.load(0) != p.c) return false;
      epilogue.activation = next.function;
      return true;
    }
    if (next.function != MapFunction::add && next.function != MapFunction::multiply) return false;
    const Access* left = next.load(0);
    const Access* right = next.load(1);
    if (!left || !right || (*left == p.c) == (*right == p.c)) return false;
    const Access& other = *left == p.c ? *right : *left;
    if (program_.buffer(other.buffer).type != program_.buffer(p.c.buffer).type) return false;
    const bool add = next.function == MapFunction::add;
    if (add && is_bias(other, p) && !epilogue.bias && !epilogue.activation && !epilogue.times && !epilogue.plus) {
      epilogue.bias = other;
      return true;
    }
    if (!same_dims(program_, other, p.c) || epilogue.plus || (!add && epilogue.times)) return false;
    (add ? epilogue.plus : epilogue.times) = other;
    return true;
  }

  /// A value for each column, the same in every loop around the product or indexed by all of its dims.
  bool is_bias(const Access& access, const ProductStep& p) const {
    std::vector<LocalDim> cols;
    for (const LocalDim& local : dims_of(program_, p.c))
      if (std::find(p.rows.begin(), p.rows.end(), local.dim) == p.rows.end()) cols.push_back(local);
    const auto dims = dims_of(program_, access);
    std::vector<LocalDim> of_batch;
    for (const LocalDim& local : cols)
      if (std::find(p.batch.begin(), p.batch.end(), local.dim) == p.batch.end()) of_batch.push_back(local);
    return !p.cols.empty() && std::ranges::equal(dims, of_batch);
  }

  /// Whether a step other than `except` writes the access's memory: R, or an F in its place.
  bool is_made_elsewhere(const Access& access, const Step& except) {
    bool found = false;
    for (Routine& routine : program_.routines)
      for_each_step(routine.steps, [&](Step& step) {
        if (&step == &except || has_bodies(step)) return;
        found = found || contains(sets_of(program_, step).writes, root(access));
      });
    return found;
  }

  /// Steps other than `except` that read the access's memory.
  std::vector<Step*> readers_elsewhere(const Access& access, const Step& except) {
    std::vector<Step*> readers;
    for (Routine& routine : program_.routines)
      for_each_step(routine.steps, [&](Step& step) {
        if (&step == &except || has_bodies(step)) return;
        if (contains(sets_of(program_, step).reads, root(access))) readers.push_back(&step);
      });
    return readers;
  }

  /// Whether equal turns of their loops lead to equal slots.
  static bool same_slots(const Access& a, const Access& b) {
    return std::ranges::equal(a.turns, b.turns, [](const TurnIndex& i, const TurnIndex& j) {
      return i.offset == j.offset && i.period == j.period;
    });
  }
  static bool is_slot_of(const Access& a, const Access& b) { return a.buffer == b.buffer && same_slots(a, b); }

  /// Backward steps compute again what this nest computes (a stash before the bias was added): the product stores the
  /// sum in place of its own result, and all of them become copies of it.
  bool all_repeat(const Access& result, const Single& operation, Step& at) {
    std::vector<Step*> readers = readers_elsewhere(result, at);
    for (const Step* step : readers) {
      const std::optional<Single> reader = single(*step);
      if (!reader || reader->function != operation.function || !same_dims(program_, reader->to, result)) return false;
      for (size_t i = 0; i < operation.operands.size(); ++i) {
        const Access* other = i < reader->operands.size() ? reader->load(i) : nullptr;
        const Access* own = operation.load(i);
        if (!other || !own || !is_slot_of(*other, *own)) return false;
        // What is added must be the same number then: nobody writes it but the update at the end of the step.
        if (!is_slot_of(*own, result) && !program_.buffer(own->buffer).stored) return false;
      }
    }
    readers.push_back(&at);
    for (Step* step : readers) {
      Pass& pass = std::get<Nest>(step->what).passes[0];
      std::erase_if(pass.scalars, [&](const Scalar& scalar) {
        const auto* load = std::get_if<Scalar::Load>(&scalar.what);
        return !load || load->access.buffer != result.buffer;
      });
      pass.stores[0].scalar = 0;
    }
    return true;
  }

  /// The derivative is all that others want of the activation's argument: it is stored in the argument's place. Relu's
  /// derivative is read off its result, which is positive where the argument was.
  bool hand_slope(const Access& argument, const Single& activation, const Step& at, ProductStep::Epilogue& epilogue) {
    const std::vector<Step*> readers = readers_elsewhere(argument, at);
    const std::optional<MapFunction> slope = slope_of(activation.function);
    const bool relu = activation.function == MapFunction::relu;
    const auto wants_slope = [&](const Single& reader) {
      if (slope) return reader.function == *slope;
      const auto* zero =
          reader.operands.size() == 2 ? std::get_if<Scalar::Literal>(&reader.operands[1]->what) : nullptr;
      return relu && reader.function == MapFunction::greater && zero && zero->value == 0 && reader.load(0);
    };
    for (const Step* step : readers) {
      const std::optional<Single> reader = single(*step);
      if (!reader || !wants_slope(*reader) || !reader->load(0)) return false;
      // Under the same turns the activation's result must be the slot beside it.
      if (relu && (!is_slot_of(*reader->load(0), argument) || !same_slots(argument, activation.to) ||
                   program_.buffer(activation.to.buffer).dims != program_.buffer(argument.buffer).dims))
        return false;
    }
    if (slope) {
      epilogue.slope = argument;
      Buffer& buffer = program_.buffer(argument.buffer);
      buffer.name = unique_name(program_, std::string(info(*slope).name));
    }
    for (Step* step : readers) {
      Pass& pass = std::get<Nest>(step->what).passes[0];
      if (relu) {
        for (Scalar& scalar : pass.scalars)
          if (auto* load = std::get_if<Scalar::Load>(&scalar.what)) load->access.buffer = activation.to.buffer;
      } else {
        const auto& apply = std::get<Scalar::Apply>(pass.scalars.back().what);
        pass.stores[0].scalar = apply.operands[0];
        pass.scalars.pop_back();
      }
    }
    return true;
  }

  /// A later or earlier nest that sums the product's right operand over its inner dims.
  void sum_columns(std::vector<Step>& steps, size_t i) {
    ProductStep& p = product(steps, i);
    if (p.column_sum || p.accumulate || !p.batch.empty()) return;
    for (size_t at = 0; at < steps.size(); ++at) {
      const auto* nest = std::get_if<Nest>(&steps[at].what);
      if (!nest || nest->passes.size() != 1 || !nest->rows.empty()) continue;
      const Pass& pass = nest->passes[0];
      if (pass.scalars.size() != 1 || !pass.stores.empty() || pass.accumulates.size() != 1) continue;
      const auto* load = std::get_if<Scalar::Load>(&pass.scalars[0].what);
      const Pass::Accumulate& sum = pass.accumulates[0];
      if (!load || load->access != p.b || sum.reduce != Reduce::sum || sum.adds) continue;
      // Of the columns that the product has, not of a part of them.
      const auto of_load = dims_of(program_, p.b);
      std::vector<DimId> whole = p.inner;
      whole.insert(whole.end(), p.cols.begin(), p.cols.end());
      if (!std::ranges::equal(of_load, whole, {}, &LocalDim::dim) ||
          !std::ranges::equal(dims_of(program_, sum.to), of_load.subspan(p.inner.size())))
        continue;
      if (program_.buffer(sum.to.buffer).type != program_.buffer(p.c.buffer).type || !may_move(steps, at, i)) continue;
      p.column_sum = sum.to;
      swallow(steps[i], steps[at]);
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
  }

  /// Whether step `from` could stand beside step `to`.
  bool may_move(const std::vector<Step>& steps, size_t from, size_t to) const {
    const StepSets own = sets_of(program_, steps[from]);
    for (size_t k = std::min(from, to); k <= std::max(from, to); ++k)
      if (k != from && conflict(sets_of(program_, steps[k]), own)) return false;
    return true;
  }

  /// The last step of a turn copies the product's result into a carry: the product writes the carry itself, if nothing
  /// in between reads what the carry held.
  void write_carry(std::vector<Step>& steps, size_t i) {
    ProductStep& p = product(steps, i);
    const Access made = p.c;
    if (!made.turns.empty() || keep_[root(made)] || program_.buffer(made.buffer).view_of) return;
    size_t at = i + 1;
    std::optional<Access> carry;
    for (; at < steps.size() && !carry; ++at) {
      const auto* nest = std::get_if<Nest>(&steps[at].what);
      if (!nest || nest->passes.size() != 1 || !nest->outer.empty()) continue;
      const Pass& pass = nest->passes[0];
      const auto* load = pass.scalars.size() == 1 ? std::get_if<Scalar::Load>(&pass.scalars[0].what) : nullptr;
      if (load && load->access == made && pass.stores.size() == 1 && same_dims(program_, pass.stores[0].to, made))
        carry = pass.stores[0].to;
    }
    if (!carry || !carry->turns.empty() || !carry->maps.empty() || program_.buffer(carry->buffer).view_of) return;
    const size_t copy = at - 1;
    const auto touches = [&](const StepSets& sets, const Access& access) {
      return contains(sets.reads, root(access)) || contains(sets.writes, root(access));
    };
    if (p.a.buffer == carry->buffer || p.b.buffer == carry->buffer || root(p.a) == root(*carry) ||
        root(p.b) == root(*carry))
      return;
    for (const auto& other : {p.epilogue.bias, p.epilogue.slope, p.epilogue.times, p.column_sum})
      if (other && root(*other) == root(*carry)) return;
    // Adding to what the carry held is what `accumulate` does.
    const bool adds = p.epilogue.plus && root(*p.epilogue.plus) == root(*carry);
    if (adds &&
        (*p.epilogue.plus != *carry || p.epilogue.activation || p.epilogue.times || p.column_sum || p.accumulate))
      return;
    for (size_t k = i + 1; k < steps.size(); ++k)
      if (k != copy && touches(sets_of(program_, steps[k]), *carry)) return;
    for (size_t k = 0; k < i; ++k)
      if (touches(sets_of(program_, steps[k]), made)) return;
    if (!only_here(steps, made)) return;
    use_instead(program_, steps, made, *carry);
    if (adds) {
      p.epilogue.plus.reset();
      p.accumulate = true;
    }
    swallow(steps[i], steps[copy]);
    steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(copy));
  }

  /// Whether no step outside this body uses the memory, and none under another name.
  bool only_here(std::vector<Step>& steps, const Access& access) const {
    int here = 0, all = 0;
    const auto count = [&](int& total, std::vector<Step>& list) {
      for (Step& step : list)
        for_each_access(step, [&](Access& other, Use) {
          if (root(other) == root(access)) total += other == access || &total == &all ? 1 : 1000;
        });
    };
    count(here, steps);
    for (Routine& routine : program_.routines) count(all, routine.steps);
    return here == all;
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
};

}  // namespace

void fuse_products(Program& program) { ProductFuser(program).run(); }

}  // namespace mesh
