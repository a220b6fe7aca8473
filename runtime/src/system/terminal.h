// terminal.h: whether a person looks at a stream, and in colours.
#pragma once
#include <cstdio>

#include "meshrt/color.h"

namespace meshrt {

bool is_terminal(std::FILE*);
bool shows_color(std::FILE*, Color);

}  // namespace meshrt
