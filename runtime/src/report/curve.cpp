#include "report/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

namespace meshrt {

namespace {

using Point = Stretches::Point;
using Points = std::vector<Point>;

// Middle tones, told from a white and from a black background, and from each other in every kind of sight.
constexpr const char *ink = "#8a8a8a", *faint = "#8a8a8a40", *training_colour = "#3b82d0",
                     *validation_colour = "#e08214";
constexpr double width = 800, height = 400, left = 70, right = 20, top = 40, bottom = 50;

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

void Stretches::add(double step, double value) {
  if (!sums_.empty() && sums_.back().count < length_) {
    Sum& last = sums_.back();
    last.sum.step += step, last.sum.value += value;
    ++last.count;
    return;
  }
  if (sums_.size() == most) {
    for (size_t i = 0; i < most / 2; ++i) {
      const Sum &one = sums_[2 * i], &other = sums_[2 * i + 1];
      sums_[i] = {{one.sum.step + other.sum.step, one.sum.value + other.sum.value}, one.count + other.count};
    }
    sums_.resize(most / 2);
    length_ *= 2;
  }
  sums_.push_back({{step, value}, 1});
}

std::vector<Point> Stretches::means() const {
  Points points;
  for (const auto& [sum, count] : sums_)
    points.push_back({sum.step / static_cast<double>(count), sum.value / static_cast<double>(count)});
  return points;
}

void Curve::add_training(int64_t step, double value) {
  if (std::isfinite(value)) training_.add(static_cast<double>(step), value);
}

void Curve::add_validation(int64_t step, double value) {
  if (std::isfinite(value)) validation_.add(static_cast<double>(step), value);
}

void Curve::add_line(const nlohmann::json& line) {
  const bool validated = line.contains("validation");
  const auto& numbers = validated ? line["validation"] : line;
  if (!line.contains("step") || !line["step"].is_number()) return;
  if (!numbers.contains(metric_) || !numbers[metric_].is_number()) return;  // null: not finite
  const auto step = line["step"].get<int64_t>();
  const auto value = numbers[metric_].get<double>();
  if (validated) add_validation(step, value);
  else add_training(step, value);
}

std::string Curve::picture() const {
  const Points training = training_.means(), validation = validation_.means();
  Range steps, values;
  for (const Points* points : {&training, &validation})
    for (const Point& point : *points) steps.add(point.step), values.add(point.value);
  if (!(steps.extent() > 0)) return "";
  return Picture(steps, values).draw(metric_, training, validation);
}

}  // namespace meshrt
