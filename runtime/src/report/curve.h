// curve.h: the curve of a metric as a picture: training and validation over steps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace meshrt {

/// A curve of any number of points in bounded memory: the means of stretches of equally many of them, which grow as
/// points come in. More could not be told apart in a picture.
class Stretches {
 public:
  static constexpr size_t most = 600;

  void add(double step, double value);

  struct Point {
    double step, value;
  };
  std::vector<Point> means() const;

 private:
  struct Sum {
    Point sum;
    int64_t count;
  };
  std::vector<Sum> sums_;
  int64_t length_ = 1;  // of each but the last, which may be shorter
};

class Curve {
 public:
  explicit Curve(std::string metric) : metric_(std::move(metric)) {}

  /// Values that are not finite have no place in it.
  void add_training(int64_t step, double value);
  void add_validation(int64_t step, double value);
  /// What a JSON line as Log writes them says of the metric.
  void add_line(const nlohmann::json& line);

  /// The picture (SVG), for light and dark backgrounds. Empty when there are no two points to draw a line between.
  std::string picture() const;

 private:
  std::string metric_;
  Stretches training_, validation_;
};

}  // namespace meshrt
