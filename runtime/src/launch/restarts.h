// restarts.h: a job that failed, started again.
#pragma once
#include <functional>

namespace meshrt {

/// How an attempt has ended.
struct Attempt {
  int code;
  bool asked_to_end;  ///< by a signal
};

/// Runs a job, and again, at most `most` times, as long as it ends with code 3 (a rank died, a host is gone, ...) and
/// nobody has asked it to end, which it tells. Ranks find the number of the attempt, from 0, in MESHRT_RESTART, and in
/// MESHRT_JOB a word that all attempts of this job have, and no other. Returns the last code.
int with_restarts(int most, const std::function<Attempt()>& run);

}  // namespace meshrt
