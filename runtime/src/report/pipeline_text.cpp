#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "meshrt/failure.h"
#include "meshrt/pipeline.h"

namespace meshrt {

namespace {

constexpr std::array<std::string_view, 9> names = {"F", "R", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};

/// Takes the number off with which the text begins; -1 where there is none.
int32_t take_number(std::string_view& text) {
  int32_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc() ? number : -1;
}

PipelineAction parse_action(std::string_view text) {
  std::string_view rest = text;
  const int32_t stage = take_number(rest);
  const std::string_view word = rest.substr(0, rest.find_first_of("0123456789"));
  rest.remove_prefix(word.size());
  const auto* const name = std::ranges::find(names, word);
  const int32_t micro_batch = take_number(rest);
  if (stage < 0 || name == names.end() || micro_batch < 0 || !rest.empty())
    throw Failure(Cause::usage, fmt::format("'{}' in a pipeline's row: an action is its stage, one of {}, and its "
                                            "micro-batch, as in 0F3",
                                            text, fmt::join(names, ", ")));
  return {static_cast<StageWork>(name - names.begin()), stage, micro_batch};
}

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

std::vector<PipelineAction> parse_row(std::string_view text) {
  std::vector<PipelineAction> row;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    row.push_back(parse_action(text.substr(at, end - at)));
    at = end + 1;
  }
  return row;
}

}  // namespace meshrt
