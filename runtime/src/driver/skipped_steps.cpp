#include "driver/skipped_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "meshrt/optimizer_names.h"
#include "meshrt/tensors_io.h"

namespace meshrt {

namespace {

/// What the program keeps of how it scales its loss: one number, or one of each replica. Null: it keeps none.
const Tensor* kept(Program& program, const char* suffix) {
  if (program.info().metrics.empty()) return nullptr;
  const std::string one = program.info().metrics[0] + suffix, of_each = one + replica_suffix;
  const auto found = std::ranges::find_if(program.tensors(), [&](const Tensor& tensor) {
    return tensor.role == Role::optimizer && (tensor.name == one || tensor.name == of_each);
  });
  return found == program.tensors().end() ? nullptr : &*found;
}

/// What to do where every step was skipped.
const char* advice(Program& program) {
  return kept(program, scale_suffix) == nullptr
             ? "give a smaller `loss_scale`, or `loss_scale: dynamic`, which finds one"
             : "the scale halves with each, so that more steps may find one, unless the loss itself is not finite";
}

}  // namespace

std::string skipped_steps(Rank& rank, Program& program, int64_t steps) {
  const Tensor* const count = kept(program, skipped_suffix);
  if (count == nullptr || count->type != Type::i32) return "";
  const std::vector<std::byte> bytes = gather_tensor(rank, *count);
  std::vector<int32_t> skipped(bytes.size() / sizeof(int32_t));
  std::memcpy(skipped.data(), bytes.data(), skipped.size() * sizeof(int32_t));
  if (std::ranges::all_of(skipped, [](int32_t number) { return number == 0; })) return "";

  const bool apart = !count->dims.empty();
  std::string what =
      fmt::format("{} of {} steps {} skipped{}: gradients of the scaled loss were not finite", fmt::join(skipped, ", "),
                  steps, skipped == std::vector{1} ? "was" : "were", apart ? " by the replicas" : "");
  if (std::ranges::max(skipped) < steps) return what;
  return fmt::format("warning: {}\n{} trained nothing: {}", what, apart ? "a replica has" : "the run has",
                     advice(program));
}

}  // namespace meshrt
