// require.h: how a case inside a rank fails.
#pragma once
#include <stdexcept>
#include <string>

namespace meshrt::test {

/// Throws std::runtime_error that says `what`, unless it `fits`.
inline void require(bool fits, const std::string& what) {
  if (!fits) throw std::runtime_error(what);
}

}  // namespace meshrt::test
