#include <fmt/format.h>

#include <array>

#include "meshrt/pipeline.h"

namespace meshrt {

namespace {

constexpr std::array<const char*, 9> names = {"F", "R", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};

}  // namespace

std::string to_text(const PipelineAction& action) {
  return fmt::format("{}{}{}", action.stage, names[static_cast<size_t>(action.work)], action.micro_batch);
}

std::string action_text(uint64_t word) {
  const uint64_t work = (word >> 56) - 1;
  if (word == 0 || work >= names.size()) return "";
  return to_text({static_cast<StageWork>(work), static_cast<int32_t>(word >> 32 & 0xffffff),
                  static_cast<int32_t>(word & 0xffffffff)});
}

}  // namespace meshrt
