// step_messages.h: what the checks of a step share: what they have to say, and what holds of all that a step reads.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace mesh {

class StepMessages {
 public:
  StepMessages(const Program& program, const Step& step) : program_(program), step_(step) {}

  std::vector<std::string> messages;

 protected:
  void say(const std::string& what);
  std::string name(DimId) const;
  static bool is_entry(int index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; }

  std::optional<DimPlacement> part(const Access&, DimId) const;
  /// What a call works on together, a rank holds the same part of, and of what it `reads_beside` perhaps margins.
  void same_parts(const std::vector<Access>&, bool reads_beside = false);
  /// How far a step goes is a number that is there before it, along a dim that is held in order.
  void stops(const LoopBound&);
  /// Where a map leads along one of `dims`; whether its elements are there, if nothing stands for missing ones.
  void mapped(const Access&, const IndexMap&, const std::vector<LocalDim>& dims);
  /// Every dim of the access is iterated, over a part that the buffer holds on every rank.
  void readable(const Access&, const std::vector<LocalDim>& dims);

  const Program& program_;

 private:
  void holds(const Access&, const LocalDim& held, const LocalDim& asked);

  const Step& step_;
};

}  // namespace mesh
