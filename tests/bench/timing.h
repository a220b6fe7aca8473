// timing.h: what benches of kernels measure.
#pragma once
#include <time.h>

#include <algorithm>
#include <functional>
#include <vector>

/// Of the calling thread alone, so that other load on the machine counts for little.
inline double seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

inline double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}
