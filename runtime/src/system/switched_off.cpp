#include "system/switched_off.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "meshrt/failure.h"

namespace meshrt {
namespace {

constexpr std::array<std::string_view, 4> known = {"overlap", "one-pass", "progress", "tcp"};

}  // namespace

bool switched_off(std::string_view what) {
  const char* const value = std::getenv("MESHRT_NO");
  bool found = false;
  for (std::string_view rest = value ? value : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (std::ranges::find(known, word) == known.end())
      throw Failure(Cause::usage, fmt::format("MESHRT_NO names `{}`; there is `{}`, with commas between several", word,
                                              fmt::join(known, "`, `")));
    found = found || word == what;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return found;
}

}  // namespace meshrt
