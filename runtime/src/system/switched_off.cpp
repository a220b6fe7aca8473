#include "system/switched_off.h"

#include <cstdlib>

namespace meshrt {

bool switched_off(std::string_view what) {
  const char* const value = std::getenv("MESHRT_NO");
  for (std::string_view rest = value ? value : ""; !rest.empty();) {
    const size_t end = rest.find(',');
    if (rest.substr(0, end) == what) return true;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace meshrt
