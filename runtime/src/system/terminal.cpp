#include "system/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace meshrt {

namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_terminal(std::FILE* file) {
  // Open MPI gives each rank a terminal of its own, whatever takes what is printed: no person's.
  return variable("OMPI_COMM_WORLD_RANK").empty() && isatty(fileno(file)) != 0 && variable("TERM") != "dumb";
}

bool shows_color(std::FILE* file, Color color) {
  if (color != Color::automatic) return color == Color::always;
  if (!variable("NO_COLOR").empty()) return false;
  const std::string_view forced = variable("CLICOLOR_FORCE");
  return (!forced.empty() && forced != "0") || is_terminal(file);
}

}  // namespace meshrt
