// optimizer_changes.h: what an optimizer is given otherwise than before.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace meshrt {

/// By name, and what ProgramInfo::settings says of it. Without a name nothing is known.
struct GivenOptimizer {
  std::string name;
  std::map<std::string, double> settings;
};

/// A line for the optimizer, and for each setting that has another value, with the parameters that have it of their
/// own; but for the rate that ProgramInfo::rate is.
std::vector<std::string> optimizer_changes(const GivenOptimizer& before, const GivenOptimizer& now);

}  // namespace meshrt
