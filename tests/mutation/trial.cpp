#include "tests/mutation/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "codegen/commands/command.h"
#include "codegen/interpret/by_gradients.h"
#include "codegen/program/memory.h"
#include "codegen/program/verify_program.h"
#include "tests/mutation/mutate.h"

namespace mesh {

namespace {

struct Chosen {
  Fault fault;
  int64_t number;
};

// "drop:3"
Chosen parse_fault(const std::string& text) {
  const size_t colon = text.find(':');
  for (const Fault fault : all_faults) {
    if (text.substr(0, colon) != name_of(fault) || colon == std::string::npos) continue;
    int64_t number = 0;
    const char* const end = text.data() + text.size();
    if (const auto [last, error] = std::from_chars(text.data() + colon + 1, end, number);
        error == std::errc() && last == end && number > 0)
      return {fault, number};
  }
  throw UsageError(fmt::format("--mutate {}: expected KIND:N or list", text));
}

/// Whether numbers of f64 are the same but for some roundings of the largest of their buffer, and others bit by bit.
bool is_same_memory(const Program& program, const std::vector<std::vector<std::byte>>& memory,
                    const std::vector<std::vector<std::byte>>& other) {
  constexpr double roundings = 1e-14;
  const auto same = [&](const Buffer& buffer, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    const auto count = static_cast<size_t>(buffer.elements);
    const int64_t at = buffer.offset + (buffer.space == Space::arena ? 0 : program.memory.arena);
    const std::byte *const here = a.data() + at, *const there = b.data() + at;
    if (std::memcmp(here, there, count * meshrt::size_of(buffer.type)) == 0) return true;
    if (buffer.type != Type::f64) return false;
    std::vector<double> x(count), y(count);
    std::memcpy(x.data(), here, count * sizeof(double));
    std::memcpy(y.data(), there, count * sizeof(double));
    double largest = 0, difference = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!(std::isfinite(x[i]) && std::isfinite(y[i])) && std::memcmp(&x[i], &y[i], sizeof(double)) != 0) return false;
      if (std::isfinite(x[i])) largest = std::max(largest, std::abs(x[i]));
      if (std::isfinite(x[i])) difference = std::max(difference, std::abs(x[i] - y[i]));
    }
    return difference <= roundings * largest;
  };
  if (memory.empty() || memory.size() != other.size()) return false;  // a run failed
  for (size_t rank = 0; rank < memory.size(); ++rank)
    for (const Buffer& buffer : program.buffers)
      if (!buffer.view_of && !same(buffer, memory[rank], other[rank])) return false;
  return true;
}

class Trial {
 public:
  Trial(Chosen chosen, const Program& good, const Program& reference, const std::optional<Program>& driven,
        CompareOptions options)
      : chosen_(chosen), good_(good), reference_(reference), driven_(driven), options_(options) {}

  Verdict run() const {
    Verdict verdict;
    Program bad = good_;
    if (const int64_t count = count_faults(bad, chosen_.fault); chosen_.number > count)
      throw UsageError(fmt::format("--mutate {}:{}: the program has room for only {}", name_of(chosen_.fault),
                                   chosen_.number, count));
    const Mutation made = mutate(bad, chosen_.fault, chosen_.number);
    if (made.what.empty())
      throw UsageError(fmt::format("--mutate {}:{}: this one lies at the edge of the memory; take another",
                                   name_of(chosen_.fault), chosen_.number));
    fmt::print("mutation: {}{}\n", made.what, made.rank ? fmt::format(", on rank {} alone", *made.rank) : "");
    if (!made.rank) {
      const std::vector<std::string> messages = verify_program(bad);
      for (const std::string& message : messages) fmt::print("the verifier says: {}\n", message);
      verdict.refused = !messages.empty();
    }
    verdict.found = compare(good_, bad, made, false);
    if (!verdict.refused && verdict.found.equal()) {
      if (changes_nothing()) fmt::print("harmless: nothing but roundings differs in any rank's memory\n");
      else if (chosen_.fault == Fault::shift && does_not_matter())
        fmt::print("harmless: nothing changes when the number read there is another one\n");
    }
    return verdict;
  }

 private:
  Comparison compare(const Program& good, const Program& bad, const Mutation& made, bool keeps_memory) const {
    CompareOptions options = options_;
    options.keeps_memory = keeps_memory;
    if (!made.rank) return compare(bad, options);
    options.other = &bad;
    options.other_rank = made.rank;
    return compare(good, options);
  }
  Comparison compare(const Program& program, const CompareOptions& options) const {
    Comparison found = compare_programs(program, reference_, options);
    if (driven_ && found.exit_code == 0 && steps_differ(found)) allow_by_gradients(found, program, *driven_, options);
    return found;
  }

  // Whether the program with the fault computes the same, every buffer in a place of its own: at most sums are added up
  // in another order, as where all elements are read a row off.
  bool changes_nothing() const {
    Program good = good_, bad = good_;
    plan_memory(good, false);
    plan_memory(bad, false);
    const Mutation made = mutate(bad, chosen_.fault, chosen_.number);
    if (made.what.empty()) return false;
    return is_same_memory(good, compare(good, good, {}, true).memory, compare(good, bad, made, true).memory);
  }

  // Whether another number in the place of the one that is read wrongly is as good: the maximum that a softmax takes
  // away, what a `where` does not choose.
  bool does_not_matter() const {
    Program raised = good_;
    const Mutation made = mutate(raised, Fault::raise, chosen_.number);
    return !made.what.empty() && compare(good_, raised, made, false).equal();
  }

  const Chosen chosen_;
  const Program& good_;
  const Program& reference_;
  const std::optional<Program>& driven_;
  const CompareOptions options_;
};

}  // namespace

Verdict try_fault(const std::string& fault, const Program& program, const Program& reference,
                  const std::optional<Program>& driven, const CompareOptions& options) {
  if (fault != "list") return Trial(parse_fault(fault), program, reference, driven, options).run();
  for (const Fault one : all_faults) fmt::print("{} {}\n", name_of(one), count_faults(program, one));
  return {};
}

}  // namespace mesh
