#include "driver/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "system/host_name.h"

namespace meshrt {

namespace {

struct Starter {
  const char *name, *job, *restarts;  // the last two: variables that it sets
};
constexpr Starter starters[] = {{"slurm", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"},
                                {"torchrun", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
                                {"meshrun", "MESHRT_JOB", "MESHRT_RESTART"}};

/// The process that has started this one, told apart from later ones of its number by when it began; empty: not known.
std::string parent() {
  std::ifstream file(fmt::format("/proc/{}/stat", getppid()));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return "";
  constexpr int begin_field = 22 - 2;  // after number and name
  std::istringstream fields(text.substr(name_end + 1));
  std::string begin;
  for (int i = 0; i < begin_field; ++i) fields >> begin;
  return fmt::format("{}:{}:{}", host_name(), getppid(), begin);
}

}  // namespace

std::map<std::string, std::string> job_names() {
  std::map<std::string, std::string> names;
  for (const Starter& starter : starters) {
    const char* text = std::getenv(starter.job);
    std::string name = text ? text : "";
    // torchrun says `none` where nobody has named the job; its ranks are its children each time.
    if (name == "none") name = parent();
    if (!name.empty()) names[starter.name] = name;
  }
  return names;
}

bool is_restart_of(const std::map<std::string, std::string>& names) {
  const std::map<std::string, std::string> own = job_names();
  for (const Starter& starter : starters) {
    const char* restarts = std::getenv(starter.restarts);
    const auto here = own.find(starter.name), there = names.find(starter.name);
    if (restarts && std::atoi(restarts) > 0 && here != own.end() && there != names.end() &&
        here->second == there->second)
      return true;
  }
  return false;
}

}  // namespace meshrt
