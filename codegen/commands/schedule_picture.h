// schedule_picture.h: a schedule over time, for a terminal, a browser, and chrome://tracing.
#pragma once
#include <string>

#include "codegen/schedule/simulate.h"

namespace mesh {

/// A line a rank, `columns` characters for all of the time; idle times are dots.
std::string draw_timeline(const Simulation&, size_t columns, bool colored);
std::string draw_svg(const Simulation&, const std::string& title);
/// A thread a rank.
std::string chrome_trace(const Simulation&, double microseconds_of_unit);

}  // namespace mesh
