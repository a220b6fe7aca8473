#include "meshrt/failure.h"

namespace meshrt {

int exit_code(Cause cause) {
  switch (cause) {
    case Cause::data: return 1;
    case Cause::usage: return 2;
    case Cause::environment:
    case Cause::memory:
    case Cause::peer_died:
    case Cause::mismatch:
    case Cause::timeout:
    case Cause::numeric: return 3;
  }
  return 70;
}

}  // namespace meshrt
