// job.h: runs rank_program as a job and says how it went.
#pragma once
#include <string>
#include <vector>

#include "meshrt/launch.h"

namespace meshrt::test {

struct Outcome {
  int code = 0;
  double seconds = 0, end = 0;  ///< how long it took; when it ended, in seconds of the steady clock
  std::string output, errors;   ///< what came on stdout and stderr
};

/// Runs `meshrun OPTIONS rank_program ARGUMENTS`, waits at most `limit` seconds (then the outcome's code is -1).
Outcome run_job(const std::vector<std::string>& options, const std::vector<std::string>& arguments, double limit);

/// Starts it and returns meshrun's pid at once; output and errors go to two descriptors.
pid_t start_job(const std::vector<std::string>& options, const std::vector<std::string>& arguments, int output,
                int errors);

/// Pids of all running rank_programs, of this build.
std::vector<pid_t> rank_programs();

}  // namespace meshrt::test
