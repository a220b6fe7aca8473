#include "collectives/injected_faults.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

namespace meshrt {

bool skips_call(int rank) {
  static const char* const skipped = std::getenv("MESHRT_SKIP_CALL");
  if (!skipped) return false;
  static thread_local int calls = 0;
  return fmt::format("{}:{}", rank, ++calls) == skipped;
}

void signal_at(int rank, const PipelineAction& action) {
  static const char* const place = std::getenv("MESHRT_SIGNAL_AT");
  if (!place) return;
  const std::string begin = fmt::format("{}:{}:", rank, to_text(action));
  if (std::string_view(place).starts_with(begin)) kill(getpid(), std::atoi(place + begin.size()));
}

}  // namespace meshrt
