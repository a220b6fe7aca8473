// memory_uses.h: which steps use each buffer's memory, looked up once and kept up to date by a pass that changes steps.
#pragma once
#include <functional>
#include <set>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

/// Steps are known by their address: while this lives, no list of steps may grow or shrink. A step that another one has
/// swallowed is told by `removed`, and taken out of its list by `sweep` in the end.
class MemoryUses {
 public:
  explicit MemoryUses(Program&);

  /// Steps without bodies that use the memory behind an access, views included, in the order of the program.
  const std::vector<Step*>& readers(const Access&) const;
  const std::vector<Step*>& writers(const Access&) const;
  bool reads(const Step&, const Access&) const;

  /// `edit` makes the step's accesses others.
  void change(Step&, const std::function<void()>& edit);
  void removed(Step&);
  bool is_removed(const Step& step) const { return removed_.contains(&step); }
  /// Takes what was removed out of the lists; nothing else may be asked afterwards.
  void sweep();

 private:
  void add(Step&);
  void forget(Step&);
  uint32_t root(const Access&) const;

  Program* program_;
  std::vector<std::vector<Step*>> readers_, writers_;  // by the buffer that is the memory
  std::set<const Step*> removed_;
};

/// Whether step `from` of a list could stand beside its step `to`: nothing from there to here uses what it changes, or
/// changes what it uses.
bool may_move(const Program&, const MemoryUses&, const Steps&, size_t from, size_t to);

}  // namespace mesh
