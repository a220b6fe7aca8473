// control_groups.h: the control groups of Linux that this process is in, where its memory and its processor time may be
// limited. See cgroups(7).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace meshrt {

struct ControlGroup {
  std::filesystem::path folder;  ///< that holds its limits
  std::string name;              ///< "/job/step"
  bool unified;                  ///< of version 2: all controllers in one folder
};

/// The groups of one controller ("cpu", "memory") that this process is in, of versions 1 and 2: the innermost first,
/// then those around it. `root` stands before /proc and /sys.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root = "");

}  // namespace meshrt
