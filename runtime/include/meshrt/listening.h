// listening.h: what a job listens at on this host, and who gets in: for administrators.
#pragma once
#include <string>
#include <vector>

namespace meshrt {

struct Listening {
  std::string job;     ///< "one host", "several hosts: control"
  std::string where;   ///< and who gets in
  std::string advice;  ///< empty: none
};

/// For each kind of job, with the addresses, variables and secrets that are here now.
std::vector<Listening> what_listens();

}  // namespace meshrt
