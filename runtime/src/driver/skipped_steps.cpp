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

/// Where the program counts them: one number, or one of each replica. Null: it scales no loss.
const Tensor* count_of(Program& program) {
  if (program.info().metrics.empty()) return nullptr;
  const std::string one = program.info().metrics[0] + skipped_suffix, of_each = one + replica_suffix;
  const auto found = std::ranges::find_if(program.tensors(), [&](const Tensor& tensor) {
    return tensor.role == Role::optimizer && tensor.type == Type::i32 && (tensor.name == one || tensor.name == of_each);
  });
  return found == program.tensors().end() ? nullptr : &*found;
}

}  // namespace

std::string skipped_steps(Rank& rank, Program& program, int64_t steps) {
  const Tensor* const count = count_of(program);
  if (count == nullptr) return "";
  const std::vector<std::byte> bytes = gather_tensor(rank, *count);
  std::vector<int32_t> skipped(bytes.size() / sizeof(int32_t));
  std::memcpy(skipped.data(), bytes.data(), skipped.size() * sizeof(int32_t));
  if (std::ranges::all_of(skipped, [](int32_t number) { return number == 0; })) return "";

  const bool apart = !count->dims.empty();
  std::string what =
      fmt::format("{} of {} steps {} skipped{}: gradients of the scaled loss were not finite", fmt::join(skipped, ", "),
                  steps, skipped == std::vector{1} ? "was" : "were", apart ? " by the replicas" : "");
  if (std::ranges::max(skipped) < steps) return what;
  return fmt::format(
      "warning: {}\n{} trained nothing: give a smaller `loss_scale`, or `loss_scale: dynamic`, which finds one", what,
      apart ? "a replica has" : "the run has");
}

}  // namespace meshrt
