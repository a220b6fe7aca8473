#include "launch/restarts.h"

#include <fmt/format.h>

#include <cstdlib>

#include "meshrt/failure.h"
#include "system/tell.h"
#include "system/token.h"

namespace meshrt {

int with_restarts(int most, const std::function<Attempt()>& run) {
  setenv("MESHRT_JOB", Token::draw().text().c_str(), 1);
  for (int restart = 0;; ++restart) {
    setenv("MESHRT_RESTART", std::to_string(restart).c_str(), 1);
    const Attempt attempt = run();
    if (attempt.code != exit_code(Cause::peer_died) || attempt.asked_to_end || restart == most) return attempt.code;
    tell("meshrun: restart {} of at most {}\n", restart + 1, most);
  }
}

}  // namespace meshrt
