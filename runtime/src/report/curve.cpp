#include "report/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace meshrt {

namespace {

struct Point {
  double step, value;
};
using Points = std::vector<Point>;

// Middle tones, told from a white and from a black background, and from each other in every kind of sight.
constexpr const char *ink = "#8a8a8a", *faint = "#8a8a8a40", *training_colour = "#3b82d0",
                     *validation_colour = "#e08214";
constexpr double width = 800, height = 400, left = 70, right = 20, top = 40, bottom = 50;

/// At most this many of a curve, of each stretch the mean: more cannot be told apart.
constexpr size_t most_points = 600;

Points thinned(const Points& points) {
  if (points.size() <= most_points) return points;
  Points few;
  for (size_t k = 0; k < most_points; ++k) {
    const size_t begin = k * points.size() / most_points, end = (k + 1) * points.size() / most_points;
    Point sum{0, 0};
    for (size_t i = begin; i < end; ++i) sum.step += points[i].step, sum.value += points[i].value;
    few.push_back({sum.step / static_cast<double>(end - begin), sum.value / static_cast<double>(end - begin)});
  }
  return few;
}

/// 1, 2 or 5 times a power of ten, so that about `count` of them cover `extent`.
double tick_distance(double extent, double count) {
  const double power = std::pow(10, std::floor(std::log10(extent / count))), rest = extent / count / power;
  return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) { low = std::min(low, value), high = std::max(high, value); }
  double extent() const { return high - low; }
};

class Picture {
 public:
  Picture(Range steps, Range values) : steps_(steps), values_(values) {
    if (values_.extent() <= 0) values_.low -= 0.5, values_.high += 0.5;
    const double margin = 0.05 * values_.extent();
    values_.low -= margin, values_.high += margin;
  }

  std::string draw(const std::string& metric, const Points& training, const Points& validation) const {
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"13\" fill=\"{2}\">\n<title>{3}</title>\n",
        width, height, ink, escaped(metric));
    text += ticks();
    text += curve(training, training_colour, false) + curve(validation, validation_colour, true);
    text += legend(escaped(metric), training, validation);
    return text + "</svg>\n";
  }

 private:
  double x(double step) const { return left + (step - steps_.low) / steps_.extent() * (width - left - right); }
  double y(double value) const { return top + (values_.high - value) / values_.extent() * (height - top - bottom); }

  static std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    return result;
  }

  std::string ticks() const {
    std::string text;
    const double high = tick_distance(values_.extent(), 6), wide = std::max(1.0, tick_distance(steps_.extent(), 8));
    for (double k = std::ceil(values_.low / high); k * high <= values_.high; ++k) {
      const double at = y(k * high);
      text += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"{}\"/>", left, at, width - right, faint);
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n", left - 8, at + 4,
                          k * high);
    }
    for (double k = std::ceil(steps_.low / wide); k * wide <= steps_.high; ++k)
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:g}</text>\n", x(k * wide),
                          height - bottom + 20, k * wide);
    return text + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">step</text>\n",
                              (left + width - right) / 2, height - 10);
  }

  std::string curve(const Points& points, const char* colour, bool dots) const {
    if (points.empty()) return "";
    std::string line;
    for (const Point& point : points)
      line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "" : " ", x(point.step), y(point.value));
    std::string text =
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n", line, colour);
    if (dots && points.size() <= 100)
      for (const Point& point : points)
        text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x(point.step),
                            y(point.value), colour);
    return text;
  }

  static std::string legend(const std::string& metric, const Points& training, const Points& validation) {
    std::string text;
    double at = left;
    const auto entry = [&](const Points& points, const char* colour, const std::string& name) {
      if (points.empty()) return;
      const std::string words = fmt::format("{}: {:.4g}", name, points.back().value);
      text += fmt::format("<path d=\"M{:.1f} 20h22\" stroke=\"{}\" stroke-width=\"3\"/>", at, colour);
      text += fmt::format("<text x=\"{:.1f}\" y=\"24\">{}</text>\n", at + 30, words);
      at += 60 + 8 * static_cast<double>(words.size());
    };
    entry(training, training_colour, metric);
    entry(validation, validation_colour, "validation " + metric);
    return text;
  }

  Range steps_, values_;
};

}  // namespace

std::string curve_picture(const std::string& json_lines, const std::string& metric) {
  Points training, validation;
  std::istringstream lines(json_lines);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step")) continue;
    const bool validated = json.contains("validation");
    const auto& numbers = validated ? json["validation"] : json;
    if (!numbers.contains(metric) || !numbers[metric].is_number()) continue;  // null: not finite
    (validated ? validation : training).push_back({json["step"].get<double>(), numbers[metric].get<double>()});
  }
  training = thinned(training), validation = thinned(validation);
  Range steps, values;
  for (const Points* points : {&training, &validation})
    for (const Point& point : *points) steps.add(point.step), values.add(point.value);
  if (!(steps.extent() > 0)) return "";
  return Picture(steps, values).draw(metric, training, validation);
}

}  // namespace meshrt
