// simplify.cpp: what is computed again, and what is not needed at all.
#include <algorithm>
#include <set>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

template <class Visit>
void for_each_nest(Program& program, Visit visit) {
  for (Routine& routine : program.routines)
    for_each_step(routine.steps, [&](Step& step) {
      if (auto* nest = std::get_if<Nest>(&step.what)) visit(*nest);
    });
}

// ---- computing again

/// How much an expression costs to write down once more: operations, and arrays read.
struct Cost {
  int operations = 0;
  std::set<uint32_t> arrays;
  bool allowed = true;
};

class Repeater {
 public:
  Repeater(const Program& program, const UseCounts& uses, const std::vector<bool>& keep)
      : program_(program), uses_(uses), keep_(keep) {}

  void run(Nest& nest) const {
    for (size_t p = 0; p < nest.passes.size(); ++p)
      for (const Pass::Store& store : std::vector<Pass::Store>(nest.passes[p].stores)) repeat(nest, p, store);
  }

 private:
  static constexpr int most_operations = 4;
  static constexpr size_t most_arrays = 2;

  /// If all readers of what the store gives are later passes of this nest over the same dims and it is cheap, they
  /// compute it themselves; the store is then without readers.
  void repeat(Nest& nest, size_t p, const Pass::Store& store) const {
    const uint32_t root = storage(program_, store.to.buffer).index;
    if (keep_[root] || uses_.writes[root] != 1 || uses_.reads[root] == 0) return;
    Cost cost;
    weigh(nest, p, store.scalar, cost);
    if (!cost.allowed || cost.operations > most_operations || cost.arrays.size() > most_arrays) return;
    int found = 0;
    for (size_t q = p + 1; q < nest.passes.size(); ++q)
      for (const Scalar& scalar : nest.passes[q].scalars)
        if (const auto* load = std::get_if<Scalar::Load>(&scalar.what); load && load->access == store.to)
          found += nest.passes[q].inner == nest.passes[p].inner ? 1 : 1000;
    if (found != uses_.reads[root]) return;
    for (size_t q = p + 1; q < nest.passes.size(); ++q) rewrite(nest.passes[p], nest.passes[q], store);
  }

  void weigh(const Nest& nest, size_t p, int index, Cost& cost) const {
    const Scalar& scalar = nest.passes[p].scalars[static_cast<size_t>(index)];
    if (const auto* apply = std::get_if<Scalar::Apply>(&scalar.what)) {
      ++cost.operations;
      if (!info(apply->function).cheap) cost.allowed = false;
      for (int operand : apply->operands) weigh(nest, p, operand, cost);
    } else if (const auto* load = std::get_if<Scalar::Load>(&scalar.what)) {
      const uint32_t root = storage(program_, load->access.buffer).index;
      cost.arrays.insert(root);
      for (size_t q = p; q < nest.passes.size(); ++q)  // what is overwritten from here on may not be read later
        for_each_access(const_cast<Pass&>(nest.passes[q]), [&](Access& access, Use use) {
          if (use != Use::read && storage(program_, access.buffer).index == root) cost.allowed = false;
        });
    }
  }

  static void rewrite(const Pass& from, Pass& to, const Pass::Store& store) {
    Pass result = to;
    result.scalars.clear();
    std::vector<int> place;
    for (const Scalar& scalar : to.scalars) {
      const auto* load = std::get_if<Scalar::Load>(&scalar.what);
      if (load && load->access == store.to) {
        place.push_back(copy(from, store.scalar, result));
        continue;
      }
      Scalar moved = scalar;
      if (auto* apply = std::get_if<Scalar::Apply>(&moved.what))
        for (int& operand : apply->operands) operand = place[static_cast<size_t>(operand)];
      result.scalars.push_back(std::move(moved));
      place.push_back(static_cast<int>(result.scalars.size() - 1));
    }
    for (auto* items : {&result.stores})
      for (auto& item : *items) item.scalar = place[static_cast<size_t>(item.scalar)];
    for (auto& item : result.reductions) item.scalar = place[static_cast<size_t>(item.scalar)];
    for (auto& item : result.accumulates) item.scalar = place[static_cast<size_t>(item.scalar)];
    to = std::move(result);
  }

  static int copy(const Pass& from, int index, Pass& to) {
    Scalar scalar = from.scalars[static_cast<size_t>(index)];
    if (auto* apply = std::get_if<Scalar::Apply>(&scalar.what))
      for (int& operand : apply->operands) operand = copy(from, operand, to);
    to.scalars.push_back(std::move(scalar));
    return static_cast<int>(to.scalars.size() - 1);
  }

  const Program& program_;
  const UseCounts& uses_;
  const std::vector<bool>& keep_;
};

// ---- leaving out

/// Scalars that no output needs.
void drop_scalars(Pass& pass) {
  std::vector<bool> needed(pass.scalars.size());
  for (const auto& item : pass.stores) needed[static_cast<size_t>(item.scalar)] = true;
  for (const auto& item : pass.reductions) needed[static_cast<size_t>(item.scalar)] = true;
  for (const auto& item : pass.accumulates) needed[static_cast<size_t>(item.scalar)] = true;
  for (size_t i = pass.scalars.size(); i-- > 0;)
    if (const auto* apply = std::get_if<Scalar::Apply>(&pass.scalars[i].what); apply && needed[i])
      for (int operand : apply->operands) needed[static_cast<size_t>(operand)] = true;
  std::vector<int> place(pass.scalars.size(), -1);
  std::vector<Scalar> kept;
  for (size_t i = 0; i < pass.scalars.size(); ++i) {
    if (!needed[i]) continue;
    place[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(pass.scalars[i]));
    if (auto* apply = std::get_if<Scalar::Apply>(&kept.back().what))
      for (int& operand : apply->operands) operand = place[static_cast<size_t>(operand)];
  }
  pass.scalars = std::move(kept);
  for (auto& item : pass.stores) item.scalar = place[static_cast<size_t>(item.scalar)];
  for (auto& item : pass.reductions) item.scalar = place[static_cast<size_t>(item.scalar)];
  for (auto& item : pass.accumulates) item.scalar = place[static_cast<size_t>(item.scalar)];
}

/// Rows that no pass reads, then numbers the rest anew.
void drop_rows(Nest& nest) {
  std::vector<bool> needed(nest.rows.size());
  for (const Pass& pass : nest.passes)
    for (const Scalar& scalar : pass.scalars)
      if (const auto* row = std::get_if<Scalar::Row>(&scalar.what)) needed[static_cast<size_t>(row->row)] = true;
  std::vector<int> place(nest.rows.size(), -1);
  std::vector<Type> kept;
  for (size_t i = 0; i < nest.rows.size(); ++i)
    if (needed[i]) {
      place[i] = static_cast<int>(kept.size());
      kept.push_back(nest.rows[i]);
    }
  nest.rows = std::move(kept);
  for (Pass& pass : nest.passes) {
    std::erase_if(pass.reductions, [&](const Pass::Reduction& r) { return place[static_cast<size_t>(r.row)] < 0; });
    for (Pass::Reduction& r : pass.reductions) r.row = place[static_cast<size_t>(r.row)];
    for (Scalar& scalar : pass.scalars)
      if (auto* row = std::get_if<Scalar::Row>(&scalar.what)) row->row = place[static_cast<size_t>(row->row)];
  }
}

bool is_empty(const Pass& pass) { return pass.stores.empty() && pass.reductions.empty() && pass.accumulates.empty(); }

bool is_empty(const Step& step) {
  if (const auto* nest = std::get_if<Nest>(&step.what)) return nest->passes.empty();
  return false;
}

/// One round; returns whether anything went.
bool drop_unread(Program& program, const std::vector<bool>& keep) {
  const UseCounts uses = count_uses(program);
  bool changed = false;
  const auto unread = [&](const auto& output) {
    const uint32_t root = storage(program, output.to.buffer).index;
    const bool goes = !keep[root] && uses.reads[root] == 0;
    changed |= goes;
    return goes;
  };
  for_each_nest(program, [&](Nest& nest) {
    for (Pass& pass : nest.passes) {
      std::erase_if(pass.stores, unread);
      std::erase_if(pass.accumulates, unread);
    }
    drop_rows(nest);
    for (Pass& pass : nest.passes) drop_scalars(pass);
    drop_rows(nest);
    std::erase_if(nest.passes, [](const Pass& pass) { return is_empty(pass); });
  });
  for_each_list(program, [](Steps& steps) { std::erase_if(steps, [](const Step& step) { return is_empty(step); }); });
  return changed;
}

/// Buffers that no step uses, and numbers the rest anew.
void drop_buffers(Program& program) {
  std::vector<bool> used = outlive_routine(program);
  for (Routine& routine : program.routines)
    for (Step& step : routine.steps)
      for_each_access(step, [&](Access& access, Use) {
        used[access.buffer.index] = used[storage(program, access.buffer).index] = true;
      });
  std::vector<BufferId> place(program.buffers.size());
  std::vector<Buffer> kept;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    if (!used[i]) continue;
    place[i] = BufferId{static_cast<uint32_t>(kept.size())};
    kept.push_back(std::move(program.buffers[i]));
  }
  program.buffers = std::move(kept);
  const auto move = [&](BufferId& id) { id = place[id.index]; };
  for (Buffer& buffer : program.buffers)
    if (buffer.view_of) move(buffer.view_of);
  for (Routine& routine : program.routines)
    for (Step& step : routine.steps) for_each_access(step, [&](Access& access, Use) { move(access.buffer); });
  for_each_handed_out(program, move);
}

// ---- copies

class CopyForwarder {
 public:
  explicit CopyForwarder(Program& program) : program_(program), keep_(outlive_routine(program)), uses_(program) {}
  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (size_t i = 0; i < steps.size(); ++i) forward(steps, i);
    });
  }

 private:
  /// Readers of `to` read `from`, where neither changes while they do: `to` is written by this copy alone and read in
  /// this body alone, after it; `from` is written by no later step of the body.
  void forward(std::vector<Step>& steps, size_t i) {
    const auto* nest = std::get_if<Nest>(&steps[i].what);
    if (!nest || !nest->outer.empty() || nest->passes.size() != 1) return;
    const Pass& pass = nest->passes[0];
    if (pass.scalars.size() != 1 || pass.stores.size() != 1) return;
    const auto* load = std::get_if<Scalar::Load>(&pass.scalars[0].what);
    if (!load) return;
    const Access from = load->access, to = pass.stores[0].to;
    const Buffer& buffer = program_.buffer(to.buffer);
    if (keep_[to.buffer.index] || !to.turns.empty() || buffer.view_of || buffer.space == Space::arena) return;
    if (!from.maps.empty() || !to.maps.empty()) return;
    if (!std::ranges::equal(dims_of(program_, from), dims_of(program_, to))) return;
    const std::vector<Step*> readers = uses_.readers(to);
    if (uses_.writers(to).size() != 1 || uses_.writers(to).front() != &steps[i]) return;
    if (!uses_.only_here(steps, to) || (!readers.empty() && uses_.readers(steps, to).front() <= i)) return;
    if (const auto writers = uses_.writers(steps, from); !writers.empty() && writers.back() > i) return;
    for (Step* reader : readers)
      uses_.change(*reader, [&] {
        for_each_access(*reader, [&](Access& access, Use) {
          if (access == to) access = from;
        });
      });
  }

  Program& program_;
  const std::vector<bool> keep_;
  MemoryUses uses_;
};

}  // namespace

void forward_copies(Program& program) { CopyForwarder(program).run(); }

void simplify(Program& program) {
  const std::vector<bool> keep = outlive_routine(program);
  while (drop_unread(program, keep)) {}
  const UseCounts uses = count_uses(program);
  for_each_nest(program, [&](Nest& nest) { Repeater(program, uses, keep).run(nest); });
  while (drop_unread(program, keep)) {}
  drop_buffers(program);
}

}  // namespace mesh
