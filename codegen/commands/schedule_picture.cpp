#include "codegen/commands/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "codegen/commands/page/html.h"

namespace mesh {

namespace {

struct Look {
  const char *letter, *terminal, *fill, *text;
};

Look look_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return {"F", "\x1b[97;44m", "#3b6fb6", "#ffffff"};
    case ActionKind::recompute: return {"R", "\x1b[30;47m", "#c9ced6", "#222222"};
    case ActionKind::input_gradient: return {"I", "\x1b[30;46m", "#55b3a9", "#10201e"};
    case ActionKind::weight_gradient: return {"W", "\x1b[30;43m", "#e2b23c", "#2b2106"};
    default: return {"B", "\x1b[30;42m", "#5da85a", "#0f1f0e"};
  }
}

/// "F3", with the stage in front where ranks have several: "2F3".
std::string label_of(const Action& action, bool with_stage) {
  return with_stage ? to_text(action) : fmt::format("{}{}", look_of(action.kind).letter, action.micro_batch);
}

bool has_chunks(const std::vector<Simulation::Timed>& actions) {
  return std::ranges::any_of(
      actions, [&](const Simulation::Timed& one) { return one.action.stage != actions.front().action.stage; });
}

bool has_chunks(const Simulation& of) {
  return std::ranges::any_of(of.actions, [](const auto& actions) { return has_chunks(actions); });
}

}  // namespace

std::string draw_timeline(const Simulation& of, size_t columns, bool colored) {
  const double scale = static_cast<double>(columns) / of.makespan;
  const bool with_stage = has_chunks(of);
  std::string picture;
  for (size_t rank = 0; rank < of.actions.size(); ++rank) {
    picture += fmt::format("rank {:<3} ", rank);
    size_t column = 0;
    const auto idle_up_to = [&](size_t to) {
      for (; column < to; ++column) picture += colored ? "\x1b[2m·\x1b[0m" : "·";
    };
    for (const Simulation::Timed& one : of.actions[rank]) {
      const auto begin = static_cast<size_t>(std::lround(one.begin * scale));
      const auto end = static_cast<size_t>(std::lround(one.end * scale));
      idle_up_to(begin);
      if (end == begin) continue;
      // The letter tells where an action begins, if there is no room for its number.
      std::string text = label_of(one.action, with_stage);
      if (text.size() > end - begin) text = look_of(one.action.kind).letter;
      text.resize(end - begin, ' ');
      picture += colored ? look_of(one.action.kind).terminal + text + "\x1b[0m" : text;
      column = end;
    }
    idle_up_to(columns);
    picture += "\n";
  }
  return picture;
}

std::string draw_svg(const Simulation& of, const std::string& title) {
  constexpr double width = 1200, left = 60, top = 34, height = 26, row = 32;
  const double scale = width / of.makespan;
  const bool with_stage = has_chunks(of);
  const std::string said = html::escaped(title);
  const double wide = left + width + 10, high = top + row * static_cast<double>(of.actions.size()) + 8;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{0}\" width=\"{1:.0f}\" height=\"{2:.0f}\" "
      "viewBox=\"0 0 {1:.0f} {2:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">\n<text "
      "x=\"{3:.0f}\" y=\"20\" font-size=\"14\">{0}</text>\n",
      said, wide, high, left);
  for (size_t rank = 0; rank < of.actions.size(); ++rank) {
    const double y = top + row * static_cast<double>(rank);
    svg += fmt::format("<text x=\"6\" y=\"{:.0f}\">rank {}</text>\n", y + 17, rank);
    svg += fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill-opacity=\"0.07\"/>\n",
                       left, y, width, height);
    for (const Simulation::Timed& one : of.actions[rank]) {
      const Look look = look_of(one.action.kind);
      const std::string label = label_of(one.action, with_stage);
      const double x = left + one.begin * scale, wide = (one.end - one.begin) * scale;
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" stroke=\"#ffffff\">"
          "<title>{}, {:g} to {:g}</title></rect>\n",
          x, y, wide, height, look.fill, to_text(one.action), one.begin, one.end);
      if (wide >= 8.0 * static_cast<double>(label.size()))
        svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>\n",
                           x + wide / 2, y + 17, look.text, label);
    }
  }
  return svg + "</svg>\n";
}

std::string chrome_trace(const Simulation& of, double microseconds_of_unit) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < of.actions.size(); ++rank)
    for (const Simulation::Timed& one : of.actions[rank])
      events.push_back({{"name", to_text(one.action)},
                        {"cat", look_of(one.action.kind).letter},
                        {"ph", "X"},
                        {"pid", 0},
                        {"tid", rank},
                        {"ts", one.begin * microseconds_of_unit},
                        {"dur", (one.end - one.begin) * microseconds_of_unit}});
  return nlohmann::ordered_json({{"traceEvents", events}}).dump(1) + "\n";
}

}  // namespace mesh
