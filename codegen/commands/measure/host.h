// host.h: what the kernel says of this host.
#pragma once
#include <string>

namespace mesh {

struct HostMemory {
  double bytes;
  bool limited;  // by a control group
};
/// What the control group, else the machine, leaves.
HostMemory host_memory();

/// "AMD EPYC 7763 64-Core Processor"; "CPU" where the kernel does not say.
std::string cpu_model();

/// The first line of a file of the kernel; empty where there is none.
std::string first_line(const std::string& path);

}  // namespace mesh
