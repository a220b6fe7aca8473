// failure.h: the one exception that ends a job. Thrown where the fault is found, caught by the launcher of ranks, which
// prints one message, tells every other rank and leaves with the exit code below.
#pragma once
#include <stdexcept>
#include <string>

namespace meshrt {

enum class Cause { usage, environment, data, memory, peer_died, mismatch, timeout, numeric };

struct Failure : std::runtime_error {
  Failure(Cause cause, const std::string& what) : std::runtime_error(what), cause(cause) {}
  Cause cause;
};

/// Exit codes of programs, meshrun and meshc: 0 success, 1 a mistake in the input, 2 wrong usage, 3 the environment or
/// the run failed, 70 an internal error, 75 stopped with a checkpoint, 130 interrupted.
int exit_code(Cause cause);

/// A signal or `train.max_time` has ended the run before its last step, and its checkpoint is on disk: the same command
/// goes on from there. (EX_TEMPFAIL of sysexits.h: try again.)
inline constexpr int exit_stopped = 75;

}  // namespace meshrt
