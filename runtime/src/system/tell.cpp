#include "system/tell.h"

#include <poll.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "meshrt/failure.h"
#include "system/terminal.h"

namespace meshrt {

namespace {

std::atomic<Color> color_of_stderr = Color::automatic;

/// `text` with its first word, up to the colon, in that colour of terminals.
std::string with_color(const std::string& text, const char* code) {
  const size_t word = text.find(':');
  return fmt::format("\x1b[{}m{}\x1b[0m{}", code, text.substr(0, word), text.substr(word));
}

std::string colored(const std::string& text) {
  if (!shows_color(stderr, color_of_stderr)) return text;
  if (text.starts_with("error: ") || text.starts_with("internal error: ")) return with_color(text, "1;31");
  return text.starts_with("warning: ") ? with_color(text, "1;33") : text;
}

}  // namespace

void choose_color(Color color) { color_of_stderr = color; }

void tell_text(const std::string& text) { tell_on(stderr, "{}", colored(text)); }

void require_written(std::FILE* stream) {
  errno = 0;
  if (std::fflush(stream) == 0 && std::ferror(stream) == 0) return;
  const std::string reason = errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
  pollfd end{fileno(stream), POLLOUT, 0};
  if (poll(&end, 1, 0) > 0 && (end.revents & POLLERR) != 0) return;
  throw Failure(Cause::environment, "cannot write to standard output" + reason);
}

}  // namespace meshrt
