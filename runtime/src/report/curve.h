// curve.h: the curve of a metric as a picture: training and validation over steps, drawn from a run's JSON lines.
#pragma once
#include <string>

namespace meshrt {

/// The picture (SVG) of `metric` in a text of JSON lines as Log writes them. Its colours are for light and dark
/// backgrounds. Empty when there are no two points to draw a line between.
std::string curve_picture(const std::string& json_lines, const std::string& metric);

}  // namespace meshrt
