// memory_uses.h: which steps use each buffer's memory, looked up once and kept up to date by a pass that changes steps.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// So that a pass asks of a value only the steps that use it, not every step whether it does.
/// Steps are known by their address: while this lives, no list of steps may grow or shrink. A step that another one has
/// swallowed is told by `removed`, and taken out of its list by `sweep` in the end; one goes elsewhere by `move_on`.
class MemoryUses {
 public:
  explicit MemoryUses(Program&);

  /// Steps without bodies that use the memory behind an access, views included, in the order of the program.
  const std::vector<Step*>& readers(const Access&) const;
  const std::vector<Step*>& writers(const Access&) const;
  /// Those and these, each once.
  std::vector<Step*> users(const Access&) const;
  /// How many accesses of the step are to the memory.
  int times_in(const Step&, const Access&) const;

  /// Where in this list the step stands, or the one of whose body it is; nothing where that is in another list.
  std::optional<size_t> place(const Steps&, const Step&) const;
  /// The one in whose body the step stands; null of a routine's own.
  const Step* around(const Step&) const;
  /// The loops in whose bodies it stands, innermost first.
  std::vector<LoopId> loops_around(const Step&) const;
  /// The places in this list of the steps that read, write, or use the memory, in order.
  std::vector<size_t> readers(const Steps&, const Access&) const;
  std::vector<size_t> writers(const Steps&, const Access&) const;
  std::vector<size_t> users(const Steps&, const Access&) const;
  /// Whether all that use the memory are steps of this list, and do so by this very access.
  bool only_here(const Steps&, const Access&) const;

  /// `edit` makes the step's accesses others.
  void change(Step&, const std::function<void()>& edit);
  void removed(Step&);
  /// Step `from` of the list, which has no bodies, comes behind step `to`; those between move up. Nothing was removed.
  void move_on(Steps&, size_t from, size_t to);
  /// All that use `from` use `to`. What messages need in the arena they need there.
  void use_instead(const Access& from, const Access& to);
  /// The same of all accesses to the buffer, in whatever turn: their turns come behind those of `to`.
  void use_instead(BufferId from, const Access& to);
  bool is_removed(const Step& step) const { return removed_.contains(&step); }
  /// Takes what was removed out of the lists; nothing else may be asked afterwards.
  void sweep();

 private:
  void note_bodies(Step&);
  void change_users(const Access& from, const Access& to, const std::function<void(Access&)>& edit);
  void add(Step&);
  void forget(Step&);
  uint32_t root(const Access&) const;
  std::vector<size_t> places(const Steps&, const std::vector<Step*>&) const;

  Program* program_;
  std::vector<std::vector<Step*>> readers_, writers_;    // by the buffer that is the memory
  std::unordered_map<const Step*, const Step*> around_;  // by step: the one in whose body it stands
  std::set<const Step*> removed_;
};

/// Whether step `from` of a list could stand beside its step `to`: nothing from there to here uses what it changes, or
/// changes what it uses.
bool may_move(const Program&, const MemoryUses&, const Steps&, size_t from, size_t to);

}  // namespace mesh
