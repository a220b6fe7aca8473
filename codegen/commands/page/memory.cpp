// memory.cpp: a rank's memory over the steps of a training step, and what takes it at the peak.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/commands/page/facts.h"
#include "codegen/commands/page/html.h"
#include "codegen/program/largest_values.h"
#include "meshrt/log.h"

namespace mesh::page {

using html::code;
using html::element;
using html::escaped;
using meshrt::bytes_text;

namespace {

/// A band of the picture, from the bottom up: what the plan's JSON counts as one kind.
struct Band {
  const char *name, *title;
  std::vector<BufferKind> kinds;
};

const std::array bands{
    Band{"params", "parameters and state", {BufferKind::parameter, BufferKind::state, BufferKind::cache}},
    Band{"optimizer", "optimizer state", {BufferKind::optimizer}}, Band{"grads", "gradients", {BufferKind::gradient}},
    Band{"activations", "activations", {BufferKind::activation, BufferKind::input, BufferKind::result}},
    Band{"workspace", "workspace", {BufferKind::workspace}}};

constexpr double left = 76, top = 26, wide = 660, high = 230, named = 8;

class Picture {
 public:
  Picture(const Facts& facts, const MemoryCurve& curve)
      : facts_(facts), curve_(curve), most_(static_cast<double>(curve.points[curve.peak].bytes)) {}

  std::string run() const {
    std::string text = fmt::format(
        "<svg class=\"memory\" role=\"img\" aria-labelledby=\"memory-label\" viewBox=\"0 0 1040 {}\">\n<title "
        "id=\"memory-label\">Memory of a rank over {} steps of the program: {} at the peak, in step {}</title>\n",
        bottom(), curve_.points.size(), bytes_text(curve_.points[curve_.peak].bytes), curve_.peak + 1);
    std::vector<double> below(curve_.points.size(), 0);
    for (const Band& band : bands) text += area(band, below);
    return text + scale() + phases() + loops() + peak() + "</svg>\n";
  }

 private:
  double x(size_t step) const {
    return left + wide * static_cast<double>(step) / static_cast<double>(curve_.points.size());
  }
  double y(double bytes) const { return top + high * (1 - bytes / most_); }

  /// One band between what lies below it and that with it.
  std::string area(const Band& band, std::vector<double>& below) const {
    std::string up, down;
    bool any = false;
    for (size_t i = 0; i < below.size(); ++i) {
      const double from = below[i];
      for (const BufferKind kind : band.kinds)
        if (const auto found = curve_.points[i].by_kind.find(kind); found != curve_.points[i].by_kind.end())
          below[i] += static_cast<double>(found->second);
      any = any || below[i] > from;
      up += fmt::format("{}{:.1f},{:.1f} {:.1f},{:.1f}", i ? " " : "M", x(i), y(below[i]), x(i + 1), y(below[i]));
      down.insert(0, fmt::format(" {:.1f},{:.1f} {:.1f},{:.1f}", x(i + 1), y(from), x(i), y(from)));
    }
    return any ? fmt::format("<path class=\"{}\" d=\"{}{}Z\"/>\n", band.name, up, down) : "";
  }

  std::string scale() const {
    std::string text;
    for (const double part : {0.0, 0.5, 1.0})
      text += fmt::format(
          "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text class=\"end\" x=\"{3}\" "
          "y=\"{4:.1f}\">{5}</text>\n",
          left, left + wide, y(part * most_), left - 6, y(part * most_) + 4,
          bytes_text(static_cast<int64_t>(part * most_)));
    return text;
  }

  /// Forward, backward and update, where they are long enough to be named.
  std::string phases() const {
    std::string text;
    for (size_t i = 0; i < curve_.points.size();) {
      size_t end = i;
      const std::string_view phase = phase_of(curve_.points[i].part);
      while (end < curve_.points.size() && phase_of(curve_.points[end].part) == phase) ++end;
      if (x(end) - x(i) > 7.0 * static_cast<double>(phase.size()))
        text += fmt::format(
            "<line class=\"phase\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><line class=\"phase\" "
            "x1=\"{3:.1f}\" x2=\"{3:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text class=\"middle\" x=\"{4:.1f}\" "
            "y=\"{5}\">{6}</text>\n",
            x(i), top, top + high + 18, x(end), (x(i) + x(end)) / 2, top + high + 14, phase);
      i = end;
    }
    return text;
  }

  /// The bodies of loops, which are drawn once; inner ones above those around them.
  std::string loops() const {
    std::string text;
    for (size_t i = 0; i < curve_.loops.size(); ++i) {
      const MemoryCurve::Loop& loop = curve_.loops[i];
      const double from = x(loop.first) + 1, to = x(loop.last + 1) - 1;
      const double line = top + high + 22 + 22 * static_cast<double>(height(i));
      const std::string name = fmt::format("{} × {}", facts_.graph.dim(loop.dim).name, loop.turns);
      text += fmt::format("<path class=\"loop\" d=\"M{0:.1f},{1} V{2} H{3:.1f} V{1}\"/>", from, line, line + 5, to);
      if (to - from > 6.5 * static_cast<double>(name.size()))
        text += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", (from + to) / 2, line + 17,
                            escaped(name));
    }
    return text;
  }

  /// How many loops stand in it, one in the other.
  size_t height(size_t of) const {
    size_t most = 0;
    for (size_t i = of + 1; i < curve_.loops.size() && curve_.loops[i].last <= curve_.loops[of].last; ++i)
      most = std::max(most, 1 + height(i));
    return most;
  }

  double bottom() const {
    size_t most = 0;
    for (size_t i = 0; i < curve_.loops.size(); ++i) most = std::max(most, 1 + height(i));
    return top + high + 26 + 22 * static_cast<double>(most);
  }

  /// The peak, with the names of what takes most there.
  std::string peak() const {
    const double at = (x(curve_.peak) + x(curve_.peak + 1)) / 2, column = left + wide + 22;
    std::string text = fmt::format(
        "<line class=\"peak\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><path class=\"peak\" "
        "d=\"M{0:.1f},{1} "
        "H{3}\"/><text x=\"{3}\" y=\"{4}\" class=\"strong\">{5} in step {6}</text>\n",
        at, top - 6, top + high, column, top - 2, bytes_text(curve_.points[curve_.peak].bytes), curve_.peak + 1);
    for (size_t i = 0; i < std::min<size_t>(curve_.at_peak.size(), named); ++i) {
      const Buffer& buffer = *curve_.at_peak[i];
      const auto band = std::ranges::find_if(
          bands, [&](const Band& one) { return std::ranges::find(one.kinds, buffer.kind) != one.kinds.end(); });
      const double line = top + 24 + 26 * static_cast<double>(i);
      std::string name = buffer.path.empty() ? buffer.name : buffer.path;
      if (name.size() > 26) name = "…" + name.substr(name.size() - 25);
      text += fmt::format(
          "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"10\" height=\"10\"/><text x=\"{}\" y=\"{}\">{} {}</text>\n",
          band->name, column, line - 9, column + 16, line, bytes_text(bytes_of(buffer)), escaped(name));
    }
    return text;
  }

  const Facts& facts_;
  const MemoryCurve& curve_;
  double most_;
};

std::string legend(const nlohmann::ordered_json& kinds) {
  std::string text;
  for (const Band& band : bands)
    text += fmt::format("<li><span class=\"key {}\"></span>{} {}</li>", band.name, band.title,
                        bytes_text(kinds[band.name].get<int64_t>()));
  return element("ul", "class=\"legend\"", text) + "\n";
}

}  // namespace

std::string memory(Facts& facts) {
  const Program& program = facts.compiled.program;
  const nlohmann::ordered_json kinds = memory_json(program);
  std::string text = fmt::format("<p>The largest rank holds {} at its peak", bytes_text(kinds["peak"].get<int64_t>()));
  if (facts.compiled.room) text += ". " + escaped(room_text(*facts.compiled.room));
  const MemoryCurve& curve = facts.memory;
  if (!curve.points.empty())
    text += fmt::format(". In a training step {} are in use at once", bytes_text(curve.points[curve.peak].bytes));
  text += ".</p>\n" + legend(kinds);
  if (curve.points.empty() || curve.points[curve.peak].bytes == 0) return section("memory", "Memory of a rank", text);
  text += element("div", "class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"Memory over the step\"",
                  Picture(facts, curve).run());
  text +=
      "<p class=\"dim\">Steps of the program stand from left to right in their order, the body of a loop once.</p>\n";
  std::vector<html::Row> rows;
  for (size_t i = 0; i < std::min<size_t>(curve.at_peak.size(), 12); ++i) {
    const Buffer& buffer = *curve.at_peak[i];
    const std::string line = facts.lines.link(buffer.span);
    rows.push_back({{code(buffer.path.empty() ? buffer.name : buffer.path), name_of(buffer.kind),
                     bytes_text(bytes_of(buffer)), escaped(parts_text(program, buffer)), line.empty() ? "-" : line}});
  }
  text += html::table("The largest values at the peak", {{"Value"}, {"Kind"}, {"Bytes", true}, {"Lies as"}, {"Line"}},
                      rows);
  return section("memory", "Memory of a rank", text);
}

}  // namespace mesh::page
