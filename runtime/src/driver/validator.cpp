#include "driver/validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "meshrt/program.h"

namespace meshrt {

namespace {

/// What a program carries, copied.
using Sums = std::vector<std::vector<std::byte>>;

Sums copy_of(std::span<const Carried> carried) {
  Sums copies;
  for (const Carried& one : carried) {
    const auto* begin = static_cast<const std::byte*>(one.data);
    copies.emplace_back(begin, begin + static_cast<size_t>(one.count) * size_of(one.type));
  }
  return copies;
}

Sums zeros_like(std::span<const Carried> carried) {
  Sums zeros;
  for (const Carried& one : carried) zeros.emplace_back(static_cast<size_t>(one.count) * size_of(one.type));
  return zeros;
}

/// carried[i] = function(carried[i], other[i]) for every element of those that add up; extremes stay.
template <class Function>
void combine_sums(std::span<const Carried> carried, const Sums& other, Function function) {
  const auto each = [&]<class T>(const Carried& one, const std::vector<std::byte>& with, T* to) {
    for (int64_t i = 0; i < one.count; ++i) {
      T number;
      std::memcpy(&number, with.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      to[i] = static_cast<T>(function(to[i], number));
    }
  };
  for (size_t i = 0; i < carried.size(); ++i) {
    const Carried& one = carried[i];
    if (one.reduce != Reduce::sum) continue;
    if (one.type == Type::f64) each(one, other[i], static_cast<double*>(one.data));
    else if (one.type == Type::i32) each(one, other[i], static_cast<int32_t*>(one.data));
    else if (one.type == Type::i64) each(one, other[i], static_cast<int64_t*>(one.data));
    else throw std::logic_error(fmt::format("an evaluation carries sums of {}", name_of(one.type)));
  }
}

}  // namespace

EvaluationSet validation_set(const RunFile& run) { return {"validation", run.validation.data, run.validation.steps}; }

Validator::Validator(Program& program, const RunFile& run, EvaluationSet set)
    : program_(program),
      entry_(entry_of(program.info(), "evaluate")),
      set_(std::move(set)),
      batches_(program.tensors(), program.info(), run, set_.sources, set_.section,
               program.info().entries[entry_].unread),
      reader_(batches_) {
  const Given<int64_t>& steps = set_.steps;
  if (const Source* mixture = batches_.mixture(); mixture != nullptr && !steps.given())
    throw run.error(mixture->mix, "a mixture has no end: how much of it is validation?",
                    set_.section == "validation" ? "give `steps` beside it" : "`validation: { steps: 20 }` says it");
  batches_.seed(run.train.seed.value, false);
  whole_ = batches_.samples() == 0 ? 1 : batches_.whole_batches();
  if (steps.value > whole_ && batches_.mixture() == nullptr)
    throw run.error(steps.mark,
                    fmt::format("validation has only {} whole batches of {}", whole_, batches_.batch_size()),
                    "leave `steps` out to read them all");
  if (steps.given()) whole_ = steps.value;
  else if (batches_.samples() > 0) rest_ = batches_.samples() % batches_.batch_size();
}

void Validator::run(const StepInput& input, std::span<double> metrics) {
  reset(program_, entry_);
  for (int64_t batch = 0; batch < whole_; ++batch) {
    const int64_t position = batch * batches_.batch_size();
    reader_.fill(position, batch + 1 < whole_ ? position + batches_.batch_size() : -1);
    program_.run(entry_, reading(input, position), {});
  }
  if (rest_ > 0) add_rest(input);
  program_.finish(entry_, metrics);
}

void Validator::add_rest(const StepInput& input) {
  std::vector<Carried> carried;
  program_.carried(entry_, carried);
  const Sums whole = copy_of(carried);
  add_samples(input, rest_, carried);
  combine_sums(carried, whole, [](auto rest, auto before) { return before + rest; });
}

// Leaves the sums over the first `distinct` samples of the rest, exact although a program evaluates whole batches
// alone: a batch in which they come again and again has each of them q times and the first r of them once more, so its
// sums less those over these r, divided by q, are what is wanted. The r become fewer until a batch has all equally
// often.
void Validator::add_samples(const StepInput& input, int64_t distinct, std::span<const Carried> carried) {
  const int64_t times = batches_.batch_size() / distinct, more = batches_.batch_size() % distinct;
  Sums of_more = zeros_like(carried);
  if (more > 0) {
    add_samples(input, more, carried);
    of_more = copy_of(carried);
  }
  combine_sums(carried, of_more, [](auto, auto) { return 0; });
  const int64_t position = whole_ * batches_.batch_size();
  batches_.fill(position, distinct);
  program_.run(entry_, reading(input, position, distinct), {});
  combine_sums(carried, of_more, [&](auto sum, auto less) { return (sum - less) / static_cast<decltype(sum)>(times); });
}

}  // namespace meshrt
