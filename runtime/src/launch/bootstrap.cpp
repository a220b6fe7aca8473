#include "launch/bootstrap.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "meshrt/failure.h"

namespace meshrt {

std::optional<int64_t> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return std::nullopt;
  int64_t number = 0;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    throw Failure(Cause::environment, fmt::format("{} is `{}`, where a launcher puts a number", name, text));
  return number;
}

namespace {

struct Launcher {
  std::unique_ptr<Bootstrap> (*find)();
  std::vector<const char*> sizes;  // the variables that say how many ranks it has started: the first that is set
};

/// A shell that was started as a job of one, for one, is where people start programs by hand, and other launchers.
bool is_of_one(const Launcher& launcher) {
  for (const char* size : launcher.sizes)
    if (const auto ranks = number_from_environment(size)) return ranks == 1;
  return false;
}

}  // namespace

std::unique_ptr<Bootstrap> find_bootstrap() {
  const Launcher torchrun{torchrun_bootstrap, {"WORLD_SIZE"}};
  std::vector<Launcher> launchers = {{pmix_bootstrap, {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}},
                                     {pmi1_bootstrap, {"PMI_SIZE"}},
                                     torchrun,
                                     {slurm_bootstrap, {"SLURM_STEP_NUM_TASKS"}}};
  // Slurm starts torchrun once a host, whose ranks then have the variables of both; others set the same ones by hand.
  if (std::getenv("TORCHELASTIC_RUN_ID") != nullptr) launchers.insert(launchers.begin(), torchrun);
  for (const Launcher& launcher : launchers)
    if (!is_of_one(launcher))
      if (auto found = launcher.find()) return found;
  return nullptr;
}

bool same_numbers(const char* one, const char* other) {
  const auto first = number_from_environment(one), second = number_from_environment(other);
  return first && first == second;
}

std::string first_host(const std::string& list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      host += list[at++];
      continue;
    }
    const size_t end = list.find_first_of("-,]", at), close = list.find(']', at);
    if (end == std::string::npos || close == std::string::npos) return "";
    host += list.substr(at + 1, end - at - 1);
    at = close + 1;
  }
  return host;
}

std::string door_name(const std::string& job) {
  return "@meshrt-door-" + Token::from(fmt::format("{} {}", geteuid(), job)).text();
}

std::string as_word(const Meeting& meeting) {
  std::string word = meeting.secret.text();
  for (const Address& address : meeting.coordinator) word += "," + address.text();
  return word;
}

Meeting from_word(const std::string& word) {
  std::istringstream parts(word);
  std::string part;
  std::getline(parts, part, ',');
  Meeting meeting{{}, Secret::from(part), 0};
  while (std::getline(parts, part, ','))
    meeting.coordinator.push_back(parse_address(part, "the coordinator's address"));
  if (meeting.coordinator.empty())
    throw Failure(Cause::environment, "rank 0 has not told where its coordinator listens");
  return meeting;
}

}  // namespace meshrt
