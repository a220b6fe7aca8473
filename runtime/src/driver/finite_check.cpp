#include <fmt/format.h>

#include <cmath>

#include "meshrt/failure.h"
#include "meshrt/finite.h"
#include "meshrt/types.h"
#include "transport/site_names.h"

namespace meshrt {

FiniteChecks*& finite_checks() {
  static thread_local FiniteChecks* checks = nullptr;
  return checks;
}

namespace {

template <class T>
auto number(T x) {
  if constexpr (std::is_floating_point_v<T>) return x;
  else return static_cast<float>(x);
}

}  // namespace

template <class T>
void check_finite(const Rank& rank, Site site, const T* data, int64_t count, std::initializer_list<Turn> turns) {
  FiniteChecks* checks = finite_checks();
  if (!checks || !checks->found.empty()) return;
  for (int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(number(data[i]));
    if (std::isfinite(x) || x < 0) continue;
    std::string where;
    for (const Turn& turn : turns) where += fmt::format(", turn {} of `{}`", turn.index, turn.loop);
    checks->found = fmt::format(
        "`{}` at {} is the first value that is not finite: {} at number {} of {} on rank {}, step {}{}", site.value,
        site_name(site.id), std::isnan(x) ? "nan" : "inf", i, count, rank.rank(), checks->step, where);
    if (checks->stop) throw Failure(Cause::numeric, checks->found);
    return;
  }
}

template void check_finite(const Rank&, Site, const float*, int64_t, std::initializer_list<Turn>);
template void check_finite(const Rank&, Site, const double*, int64_t, std::initializer_list<Turn>);
template void check_finite(const Rank&, Site, const Bfloat16*, int64_t, std::initializer_list<Turn>);
template void check_finite(const Rank&, Site, const Float16*, int64_t, std::initializer_list<Turn>);

}  // namespace meshrt
