// steps_so_far.h: the steps of a list that a pass has put in order so far, and which of them use each buffer's memory:
// so that the next one asks only those with which it has something in common.
#pragma once
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/program/fuse.h"

namespace mesh {

class StepsSoFar {
 public:
  explicit StepsSoFar(const Program& program) : program_(program) {}

  void append(Step);
  /// `edit` makes the nest another one.
  void change(size_t at, const std::function<void(Step&)>& edit);
  /// Takes a nest out; the others keep their places.
  Step take(size_t at);
  Steps take_all();

  size_t last() const { return steps_.size() - 1; }
  const Step& step(size_t at) const { return *steps_[at]; }
  const Nest& nest(size_t at) const { return std::get<Nest>(steps_[at]->what); }
  const StepSets& sets(size_t at) const { return sets_[at]; }
  std::optional<size_t> last_call() const { return last_call_; }  // the last that is no nest
  /// The last that may not change places with a step of these sets.
  std::optional<size_t> last_in_the_way(const StepSets&) const;
  /// Whether it may not move down over all before the last one. It never may again.
  bool is_held_up(size_t at) const;
  /// Whether one below it is of another part than the forward one.
  bool is_above_other_parts(size_t at) const { return !others_.empty() && others_.back() > at; }

  /// From `begin` on, the last one first, the nests that compute single numbers, or those that share data with a nest
  /// of these sets below them: they write what it reads, or both read, or write, an array.
  std::vector<size_t> numbers(size_t begin) const { return from(begin, all_.numbers); }
  std::vector<size_t> sharing(const StepSets& below, size_t begin) const { return sharing(below, begin, all_); }
  /// The same of those that were not said to be held up.
  std::vector<size_t> free_numbers(size_t begin) const { return from(begin, free_.numbers); }
  std::vector<size_t> free_sharing(const StepSets& below, size_t begin) const { return sharing(below, begin, free_); }
  void hold_up(size_t at);

 private:
  using Places = std::vector<size_t>;  // in order
  struct Users {
    Places readers, writers;
  };
  struct Index {
    std::unordered_map<uint32_t, Users> users;  // by memory
    Places numbers;
  };
  void note(size_t at);
  void note(size_t at, Index&) const;
  void forget(size_t at);
  void forget(size_t at, Index&) const;
  bool is_nest(size_t at) const { return std::holds_alternative<Nest>(steps_[at]->what); }
  static Places from(size_t begin, const Places&);
  Places sharing(const StepSets& below, size_t begin, const Index&) const;

  const Program& program_;
  std::vector<std::optional<Step>> steps_;
  std::vector<StepSets> sets_;
  std::vector<bool> is_free_;  // of a nest: it was not said to be held up
  Index all_, free_;
  Places others_;  // those of other parts than the forward one
  std::optional<size_t> last_call_;
};

/// Whether a nest computes no more than single numbers.
bool is_number(const Nest&);

}  // namespace mesh
