// color.h: when what is told to people has colours.
#pragma once
#include <cstdint>

namespace meshrt {

/// `automatic` is on a terminal, unless NO_COLOR is set or TERM is "dumb"; and where CLICOLOR_FORCE is set.
enum class Color : uint8_t { automatic, always, never };

}  // namespace meshrt
