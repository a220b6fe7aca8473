// findings.h: what `meshc doctor` looks at, and what it says of each.
#pragma once
#include <string>
#include <vector>

namespace mesh {

enum class Health : uint8_t {
  good,
  slow,
  missing
};  // slow: works, with less speed or comfort; missing: a job cannot run

struct Finding {
  Health health;
  std::string subject;  // "processors"
  std::string found;    // "2, and no limit on their time"
  std::string remedy;   // what to do; empty where it is good
};

/// Processors, memory, shared memory, huge pages, limits.
std::vector<Finding> look_at_machine();
/// UCX and what it could go over; what a job listens at, and who gets in.
std::vector<Finding> look_at_network();
/// The C++ compiler, the runtime, libraries, and programs that start ranks.
std::vector<Finding> look_at_tools();

}  // namespace mesh
