#include "transport/site_names.h"

#include <fmt/format.h>

#include <mutex>

namespace meshrt {

namespace {

struct Names {
  std::mutex mutex;
  std::vector<std::string> of_site;
};

Names& known() {
  static Names names;
  return names;
}

}  // namespace

void name_sites(std::vector<std::string> names) {
  const std::lock_guard lock(known().mutex);
  known().of_site = std::move(names);
}

std::string site_name(int32_t site) {
  const std::lock_guard lock(known().mutex);
  const auto& names = known().of_site;
  const bool named = site >= 0 && site < static_cast<int32_t>(names.size()) && !names[site].empty();
  return named ? names[site] : fmt::format("site {}", site);
}

}  // namespace meshrt
