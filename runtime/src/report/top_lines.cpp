#include "report/top_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

namespace meshrt {

namespace {

constexpr size_t most_told = 10;

constexpr std::pair<const char*, double LineCost::*> told_parts[] = {
    {"products", &LineCost::products}, {"attention", &LineCost::attention}, {"collectives", &LineCost::collectives}};

/// "products 80 %, collectives 12 %": what the runtime knows of a line's seconds; nests are the rest.
std::string parts_text(const LineCost& cost) {
  std::vector<std::string> texts;
  double rest = cost.seconds;
  const auto add = [&](const char* name, double seconds) {
    if (seconds >= 0.01 * cost.seconds) texts.push_back(fmt::format("{} {:.0f} %", name, 100 * seconds / cost.seconds));
  };
  for (const auto& [name, part] : told_parts) {
    add(name, cost.*part);
    rest -= cost.*part;
  }
  add("nests", rest);
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// So that a line of the table fits a terminal.
std::string shortened(const std::string& statement) {
  constexpr size_t most = 56;
  if (statement.size() <= most) return statement;
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(statement[end]) & 0xc0) == 0x80) --end;  // not within a letter
  return statement.substr(0, end) + "...";
}

}  // namespace

std::vector<TopLine> top_lines(const LineCosts& costs, int64_t steps) {
  constexpr std::string_view backward = "gradient of ";
  std::map<std::string, TopLine> lines;
  double all = 0;
  for (const auto& [name, cost] : costs.lines()) {
    const std::string_view whole = name;
    const size_t end = std::min(whole.find("  "), whole.size());
    std::string_view statement = whole.substr(std::min(end + 2, whole.size()));
    const bool of_gradient = statement.starts_with(backward);
    if (of_gradient) statement.remove_prefix(backward.size());
    const std::string place(whole.substr(0, end));
    TopLine& line = lines.try_emplace(place, TopLine{place, std::string(statement), {}, 0}).first->second;
    if (!of_gradient) line.text = statement;  // cut less
    // What is waited for is the work of another rank, on whatever line that is.
    LineCost own = cost;
    own.seconds -= cost.waiting;
    own.collectives -= cost.waiting;
    for (double LineCost::*part :
         {&LineCost::seconds, &LineCost::products, &LineCost::attention, &LineCost::collectives, &LineCost::waiting})
      line.per_step.*part += own.*part / static_cast<double>(steps);
    all += own.seconds / static_cast<double>(steps);
  }
  std::vector<TopLine> top;
  for (auto& [place, line] : lines) {
    if (line.per_step.seconds <= 0) continue;
    line.share = line.per_step.seconds / all;
    top.push_back(std::move(line));
  }
  std::ranges::stable_sort(top, std::greater<>(), [](const TopLine& line) { return line.per_step.seconds; });
  if (top.size() > most_told) top.erase(top.begin() + most_told, top.end());
  return top;
}

std::vector<std::string> top_lines_text(const std::vector<TopLine>& lines) {
  if (lines.empty()) return {};
  std::vector<std::string> texts = {"the lines of the spec that cost rank 0 most, in a step:"};
  size_t places = 0, statements = 0;
  for (const TopLine& line : lines) {
    places = std::max(places, line.place.size());
    statements = std::max(statements, shortened(line.text).size());
  }
  for (const TopLine& line : lines)
    texts.push_back(fmt::format("  {:>8.3f} ms {:>5.1f} %  {:<{}}  {:<{}}  {}", 1e3 * line.per_step.seconds,
                                100 * line.share, line.place, places, shortened(line.text), statements,
                                parts_text(line.per_step)));
  return texts;
}

std::string value_named_by(const std::string& statement) {
  for (const std::string_view sign : {" <- ", " = "}) {
    const size_t at = statement.find(sign);
    const std::string name = statement.substr(0, at);
    if (at != std::string::npos && name.find_first_of("([") == std::string::npos) return name;
  }
  return statement;
}

}  // namespace meshrt
