// standard_streams.h: descriptors 0, 1 and 2 of a process that was started without some of them.
#pragma once
#include <fcntl.h>
#include <unistd.h>

namespace meshrt {

/// Takes the numbers of those that are closed: else what the process opens first would get them, and lines meant for
/// people would go into it. Writing to them fails as before. To be called before anything is opened.
inline void open_standard_streams() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    if (fcntl(number, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != number) return;
}

}  // namespace meshrt
