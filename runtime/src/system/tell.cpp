#include "system/tell.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "meshrt/failure.h"

namespace meshrt {

void require_written(std::FILE* stream) {
  errno = 0;
  if (std::fflush(stream) == 0 && std::ferror(stream) == 0) return;
  const std::string reason = errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
  pollfd end{fileno(stream), POLLOUT, 0};
  if (poll(&end, 1, 0) > 0 && (end.revents & POLLERR) != 0) return;
  throw Failure(Cause::environment, "cannot write to standard output" + reason);
}

}  // namespace meshrt
