#include "driver/optimizer_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace meshrt {
namespace {

/// "layer.w:lr.cosine.warmup" in its parts; without a schedule "layer.w:weight_decay".
struct Setting {
  std::string path, schedule, name;  // path: "" of all parameters
  bool of_rate() const { return !schedule.empty(); }
};

Setting parts_of(const std::string& key) {
  Setting setting;
  const size_t colon = key.rfind(':');
  if (colon != std::string::npos) setting.path = key.substr(0, colon);
  setting.name = key.substr(colon == std::string::npos ? 0 : colon + 1);
  if (!setting.name.starts_with("lr.")) return setting;
  const size_t dot = setting.name.rfind('.');
  setting.schedule = setting.name.substr(3, dot - 3);
  setting.name.erase(0, dot + 1);
  return setting;
}

using Settings = std::map<std::string, double>;

/// The schedules whose product is a parameter's rate, "" the rate of all; "" where it has none of its own.
std::string schedules(const Settings& settings, const std::string& path) {
  std::set<std::string> names;
  for (const auto& [key, value] : settings)
    if (const Setting one = parts_of(key); one.of_rate() && one.path == path) names.insert(one.schedule);
  return fmt::format("{}", fmt::join(names, " * "));
}

/// A parameter that has none of its own has that of all.
std::string value_text(const Settings& settings, const std::string& key) {
  auto found = settings.find(key);
  if (const Setting one = parts_of(key); found == settings.end() && !one.of_rate()) found = settings.find(one.name);
  return found == settings.end() ? "none" : fmt::format("{}", found->second);
}

constexpr const char* frozen = "frozen";

/// Whether both tell so much of a setting that it can be compared: older checkpoints know nothing of what is frozen and
/// of replicas, and a parameter that is frozen has no others of its own.
bool comparable(const Settings& before, const Settings& now, const Setting& one) {
  if (one.name == frozen) return before.contains(frozen);
  if (one.name == "sync" || one.name.starts_with("outer.")) return before.contains(one.name) && now.contains(one.name);
  const std::string key = one.path + ":" + frozen;
  return one.path.empty() || !(before.contains(key) || now.contains(key));
}

/// What has changed, and of which parameters alone.
using Changes = std::map<std::vector<std::string>, std::vector<std::string>>;

void add_changed_schedules(const Settings& before, const Settings& now, const std::set<std::string>& paths,
                           Changes& changes) {
  for (const std::string& path : paths) {
    const auto text = [&](const Settings& settings) {
      const std::string names = schedules(settings, path);
      return names.empty() ? "that of all" : names;
    };
    if (text(now) != text(before)) changes[{"lr", text(now), text(before)}].push_back(path);
  }
}

std::string line_of(const std::vector<std::string>& change, const std::vector<std::string>& paths) {
  constexpr size_t most = 3;
  const auto end = paths.begin() + static_cast<std::ptrdiff_t>(std::min(most, paths.size()));
  std::string names = fmt::format("{}", fmt::join(paths.begin(), end, ", "));
  if (paths.size() > most) names += fmt::format(" and {} more", paths.size() - most);
  if (change[0] == frozen)
    return change[1] == "1" ? fmt::format("the optimizer no longer trains {}", names)
                            : fmt::format("the optimizer trains {} and did not", names);
  const std::string of = names.empty() ? "" : " of " + names;
  return fmt::format("the optimizer's {}{} is {} and was {}", change[0], of, change[1], change[2]);
}

}  // namespace

std::vector<std::string> optimizer_changes(const GivenOptimizer& before, const GivenOptimizer& now) {
  std::vector<std::string> lines;
  if (before.name.empty() || now.name.empty()) return lines;
  const bool same = before.name == now.name;
  if (!same) lines.push_back(fmt::format("the optimizer is {} and was {}", now.name, before.name));
  const bool knows_rates = !schedules(before.settings, "").empty();  // older checkpoints do not, nor of parameters
  Settings all = now.settings;
  all.insert(before.settings.begin(), before.settings.end());
  std::set<std::string> with_rate;
  Changes changes;
  for (const auto& [key, value] : all) {
    const Setting one = parts_of(key);
    if ((one.of_rate() || !one.path.empty()) && !knows_rates) continue;
    if (!comparable(before.settings, now.settings, one)) continue;
    if (one.of_rate()) with_rate.insert(one.path);
    const auto has = [&](const Settings& settings) { return value_text(settings, key) != "none"; };
    const std::string is = value_text(now.settings, key), was = value_text(before.settings, key);
    const bool both = has(now.settings) && has(before.settings);
    const bool same_rate = schedules(now.settings, one.path) == schedules(before.settings, one.path);
    if (is == was || !(both || (same && !one.of_rate())) || (one.of_rate() && !same_rate)) continue;
    const std::string name = one.of_rate() ? fmt::format("lr.{}.{}", one.schedule, one.name) : one.name;
    changes[{name, is, was}].push_back(one.path);
  }
  add_changed_schedules(before.settings, now.settings, with_rate, changes);
  for (auto& [change, paths] : changes) lines.push_back(line_of(change, paths));
  return lines;
}

}  // namespace meshrt
