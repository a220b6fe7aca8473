#pragma once

#include <chrono>

namespace meshrt {

/// Seconds that have passed since `start`.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace meshrt
