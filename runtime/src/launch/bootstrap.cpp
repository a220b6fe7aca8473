#include "launch/bootstrap.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <sstream>

#include "meshrt/failure.h"

namespace meshrt {

std::optional<int> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return std::nullopt;
  int number = 0;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    throw Failure(Cause::environment, fmt::format("{} is `{}`, where a launcher puts a number", name, text));
  return number;
}

std::unique_ptr<Bootstrap> find_bootstrap() {
  // A shell that was started as a job of one, for one, is where people start programs by hand.
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (number_from_environment(size) == 1) return nullptr;
  for (const auto& find : {pmix_bootstrap, pmi1_bootstrap, torchrun_bootstrap, slurm_bootstrap})
    if (auto found = find()) return found;
  return nullptr;
}

std::string first_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of("-,]", bracket);
  const size_t close = list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos) return "";
  const size_t next = list.find(',', close);
  const std::string rest = list.substr(close + 1, next == std::string::npos ? next : next - close - 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) + rest;
}

std::string as_word(const Meeting& meeting) {
  std::string word = meeting.token.text();
  for (const Address& address : meeting.coordinator) word += "," + address.text();
  return word;
}

Meeting from_word(const std::string& word) {
  std::istringstream parts(word);
  std::string part;
  std::getline(parts, part, ',');
  Meeting meeting{{}, Token::from(part), 0};
  while (std::getline(parts, part, ','))
    meeting.coordinator.push_back(parse_address(part, "the coordinator's address"));
  if (meeting.coordinator.empty())
    throw Failure(Cause::environment, "rank 0 has not told where its coordinator listens");
  return meeting;
}

}  // namespace meshrt
