#include "codegen/program/verify_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "codegen/program/extent.h"
#include "codegen/program/lifetimes.h"
#include "codegen/program/memory.h"

namespace mesh {

namespace {

/// What lives at a time on a rank, by where it begins in a space.
class Living {
 public:
  /// Those whose memory the buffer's meets, of which it takes the place here. What comes later and meets them alone is
  /// not told: they were, with this one, or it took a dying one's memory over, and then it is in the way itself.
  std::vector<size_t> add(size_t buffer, int64_t begin, int64_t end) {
    std::vector<size_t> met = meeting(begin, end);
    for (const size_t one : met) remove(one);
    at_.emplace(begin, Part{end, buffer});
    begins_[buffer] = begin;
    return met;
  }

  std::vector<size_t> meeting(int64_t begin, int64_t end) const {
    std::vector<size_t> met;
    auto at = at_.lower_bound(begin);
    if (at != at_.begin() && std::prev(at)->second.end > begin) --at;
    for (; at != at_.end() && at->first < end; ++at) met.push_back(at->second.buffer);
    return met;
  }

  void remove(size_t buffer) {
    const auto begin = begins_.find(buffer);
    if (begin == begins_.end()) return;
    at_.erase(begin->second);
    begins_.erase(begin);
  }

 private:
  struct Part {
    int64_t end;
    size_t buffer;
  };
  std::map<int64_t, Part> at_;
  std::map<size_t, int64_t> begins_;
};

class MemoryVerifier {
 public:
  MemoryVerifier(const Program& program, const RankClasses& classes)
      : program_(program), classes_(classes), life_(lifetimes(program, classes)) {
    for (const Buffer& buffer : program.buffers)
      bytes_.push_back(largest_elements(program, buffer) * static_cast<int64_t>(meshrt::size_of(buffer.type)));
    for (const Routine& routine : program.routines) {
      std::vector<Numbered>& steps = steps_.emplace_back();
      for_each_numbered(routine.steps, [&](const Step& step, int, int block) {
        steps.push_back({std::get_if<Nest>(&step.what), block});
      });
    }
  }

  std::vector<std::string> run() {
    for (size_t i = 0; i < life_.size(); ++i) space(i);
    for (const size_t alike : classes_that_differ())
      for (const Space space : {Space::arena, Space::own}) find_met(alike, space);
    for (const auto& [a, b] : met_) {
      const bool taken_over = program_.buffers[a].offset == program_.buffers[b].offset && bytes_[a] == bytes_[b] &&
                              std::min(life_[a].routine, life_[b].routine) >= 0 &&
                              (takes_over(b, a) || takes_over(a, b));
      if (!taken_over)
        say(fmt::format("{} and {} live at the same time in the same memory", program_.buffers[b].name,
                        program_.buffers[a].name));
    }
    return std::move(messages_);
  }

 private:
  void say(std::string message) { messages_.push_back(std::move(message)); }

  void space(size_t i) {
    const Buffer& buffer = program_.buffers[i];
    if (buffer.view_of) {
      if (buffer.offset != program_.buffer(buffer.view_of).offset)
        say(fmt::format("view {} lies elsewhere than its memory", buffer.name));
      return;
    }
    if (life_[i].routine == -2) return;
    const int64_t total = buffer.space == Space::arena ? program_.memory.arena : program_.memory.own;
    if (buffer.offset < 0 || buffer.offset % 64 != 0 || buffer.offset + bytes_[i] > total)
      say(fmt::format("{} lies at {}, outside its space of {} bytes or not at a multiple of 64", buffer.name,
                      buffer.offset, total));
  }

  bool lives_on(size_t buffer, size_t alike) const { return life_[buffer].ranks.empty() || life_[buffer].ranks[alike]; }

  /// Of classes of ranks that hold the same buffers one.
  std::vector<size_t> classes_that_differ() const {
    std::set<RankSet> sets;
    for (const Lifetime& life : life_) sets.insert(life.ranks);
    std::map<std::vector<bool>, size_t> differ;
    for (size_t alike = 0; alike < classes_.count(); ++alike) {
      std::vector<bool> in;
      for (const RankSet& set : sets) in.push_back(set.empty() || set[alike]);
      differ.try_emplace(std::move(in), alike);
    }
    std::vector<size_t> classes;
    for (const auto& [in, alike] : differ) classes.push_back(alike);
    return classes;
  }

  /// Goes through each routine with what lives at each step.
  void find_met(size_t alike, Space space) {
    Living always;
    std::vector<std::vector<size_t>> of_routine(program_.routines.size());
    for (size_t i = 0; i < life_.size(); ++i) {
      if (life_[i].routine == -2 || program_.buffers[i].space != space || bytes_[i] == 0 || !lives_on(i, alike))
        continue;
      if (life_[i].routine >= 0) of_routine[static_cast<size_t>(life_[i].routine)].push_back(i);
      else note(i, always.add(i, begin(i), end(i)));
    }
    for (std::vector<size_t>& buffers : of_routine) {
      std::ranges::stable_sort(buffers, {}, [&](size_t i) { return life_[i].first; });
      Living now;
      std::multimap<int, size_t> ends;
      for (const size_t i : buffers) {
        for (; !ends.empty() && ends.begin()->first < life_[i].first; ends.erase(ends.begin()))
          now.remove(ends.begin()->second);
        note(i, always.meeting(begin(i), end(i)));
        note(i, now.add(i, begin(i), end(i)));
        ends.emplace(life_[i].last, i);
      }
    }
  }

  int64_t begin(size_t i) const { return program_.buffers[i].offset; }
  int64_t end(size_t i) const { return begin(i) + bytes_[i]; }
  void note(size_t i, const std::vector<size_t>& others) {
    for (const size_t other : others) met_.emplace(std::max(i, other), std::min(i, other));
  }

  /// A result in the place of an operand that dies in the nest that makes it.
  bool takes_over(size_t dying, size_t born) const {
    if (life_[dying].last != life_[born].first || life_[dying].block != life_[born].block) return false;
    const Numbered& step = steps_[static_cast<size_t>(life_[born].routine)][static_cast<size_t>(life_[born].first)];
    return step.nest && step.block == life_[born].block &&
           may_take_over(program_, *step.nest, BufferId{static_cast<uint32_t>(dying)},
                         BufferId{static_cast<uint32_t>(born)});
  }

  struct Numbered {
    const Nest* nest;  // null: another step
    int block;
  };

  const Program& program_;
  const RankClasses& classes_;
  const std::vector<Lifetime> life_;
  std::vector<int64_t> bytes_;                // by buffer
  std::vector<std::vector<Numbered>> steps_;  // by routine
  std::set<std::pair<size_t, size_t>> met_;   // live at one time in one memory, the later buffer first
  std::vector<std::string> messages_;
};

}  // namespace

std::vector<std::string> verify_memory(const Program& program, const RankClasses& classes) {
  return MemoryVerifier(program, classes).run();
}

}  // namespace mesh
