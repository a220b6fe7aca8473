#include "rounds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "watchdog.h"

// What the sanitizers find has the mutant's number beside it. The name is theirs.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" void __asan_on_error() {
  (void)!write(mesh::fuzz::complaints(), mesh::fuzz::running(), std::strlen(mesh::fuzz::running()));
}

namespace mesh::fuzz {

int run_rounds(uint64_t first, uint64_t count, std::chrono::seconds limit,
               const std::function<bool(uint64_t number)>& accepts) {
  uint64_t done = 0, accepted = 0;
  for (; done < count && std::clock() < limit.count() * CLOCKS_PER_SEC; ++done) {
    run_next(first + done);
    try {
      accepted += accepts(first + done) ? 1 : 0;
    } catch (const std::exception& error) {
      dprintf(complaints(), "%s%s\n", running(), error.what());
      return 1;
    }
  }
  const double seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  fmt::print("{} mutants, {} accepted, {:.1f} s\n", done, accepted, seconds);
  return 0;
}

}  // namespace mesh::fuzz
