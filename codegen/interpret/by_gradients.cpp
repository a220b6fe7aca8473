#include "codegen/interpret/by_gradients.h"

#include <algorithm>

#include "codegen/graph/value_names.h"

namespace mesh {
namespace {

using Arrays = std::map<std::string, meshrt::Array>;

/// A program that takes one step after the other, each from what the one before left.
class StepByStep {
 public:
  StepByStep(const Program& program, const CompareOptions& options) : job_(compared_job(program, options)) {
    job_.other = options.other;
    job_.other_rank = options.other_rank;
    job_.first_step = 0;
    job_.steps = 1;
  }

  /// Whether the next step was taken.
  bool take(const Arrays& gradients, int64_t evaluated) {
    for (const auto& [name, gradient] : gradients) job_.feeds[name] = gradient;
    ++job_.first_step;
    job_.evaluated = evaluated;
    result_ = interpret(job_);
    for (const Stored& stored : job_.program.sharded.graph.stored)
      if (const auto left = result_.after.find(stored.path);
          left != result_.after.end() && stored.kind != StoredKind::input)
        job_.stored[stored.path] = left->second;
    return result_.exit_code == 0;
  }
  Arrays gradients() const {
    Arrays found = result_.wanted;
    std::erase_if(found, [](const auto& one) { return !is_gradient_name(one.first); });
    return found;
  }
  const InterpretResult& last() const { return result_; }

 private:
  InterpretRequest job_;
  InterpretResult result_;
};

/// Whether gradients differ by rounding alone. One that is zero but for that is made of terms as large as others are.
bool are_near(const Arrays& given, const Arrays& own, double bound) {
  std::vector<ComparedValue> compared;
  double largest = 0;
  for (const auto& [name, gradient] : given) {
    compared.push_back(compare_arrays(name, gradient, own.at(name), bound));
    largest = std::max(largest, compared.back().largest);
  }
  return std::ranges::all_of(compared, [&](const ComparedValue& one) {
    return !one.nan && one.difference <= bound_of(one.type, bound) * largest;
  });
}

}  // namespace

bool steps_differ(const Comparison& found) {
  return std::ranges::any_of(found.values, [](const ComparedValue& value) {
    return !value.equal && !value.nan && (value.name.starts_with("param(") || value.name.starts_with("optimizer("));
  });
}

void allow_by_gradients(Comparison& found, const Program& program, const Program& driven,
                        const CompareOptions& options) {
  const double bound = bound_of(program, options);
  const bool evaluates = program.entry("evaluate") != nullptr && driven.entry("evaluate") != nullptr;
  CompareOptions of_driven = options;
  of_driven.other = nullptr;
  of_driven.other_rank = {};
  StepByStep given(program, options), reference(driven, of_driven);
  for (int64_t step = 1; step <= options.steps; ++step) {
    const int64_t evaluated = evaluates && step == options.steps ? evaluated_batches : 0;
    if (!given.take({}, evaluated) || !reference.take(given.gradients(), evaluated)) return;
    if (!are_near(given.gradients(), reference.gradients(), bound)) return;
  }
  const std::vector<ComparedValue> same = compare_results(program, given.last(), reference.last(), bound);
  for (ComparedValue& value : found.values)
    if (!value.equal && !value.nan)
      value.equal = value.by_gradients = std::ranges::find(same, value.name, &ComparedValue::name)->equal;
}

}  // namespace mesh
