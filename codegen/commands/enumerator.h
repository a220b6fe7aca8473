// enumerator.h: options of the command line whose values are names of enumerators.
#pragma once
#include <fmt/ranges.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace mesh {

/// Turns the option's text into the number of the enumerator that it names, which the parser reads. (Its own
/// transformer shows enumerators as characters, in what it says of a name that there is not.)
template <class Enum>
CLI::Validator enumerator_of(std::vector<std::pair<std::string, Enum>> names) {
  return CLI::Validator(
      [names = std::move(names)](std::string& text) -> std::string {
        const auto found = std::ranges::find(names, text, &std::pair<std::string, Enum>::first);
        if (found == names.end()) {
          std::vector<std::string> known;
          for (const auto& [name, value] : names) known.push_back(name);
          return fmt::format("{} not in {{{}}}", text, fmt::join(known, ","));
        }
        text = std::to_string(static_cast<int>(found->second));
        return {};
      },
      "");
}

}  // namespace mesh
