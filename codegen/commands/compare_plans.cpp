#include "codegen/commands/compare_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "codegen/commands/plan_report.h"
#include "codegen/commands/table.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

constexpr const char* absent = "-";

Row row(std::string title, const std::vector<Json>& plans, const std::function<std::string(const Json&)>& cell) {
  Row cells{std::move(title)};
  for (const Json& plan : plans) cells.push_back(cell(plan));
  return cells;
}

std::string text(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, " * ")); }

/// Rows by a key, in the order in which the keys are met; a cell for each plan.
class Rows {
 public:
  explicit Rows(size_t plans) : plans_(plans) {}
  std::string& cell(const std::string& key, size_t plan) {
    const auto [at, is_new] = at_.try_emplace(key, rows_.size());
    if (is_new) {
      rows_.emplace_back(plans_ + 1, absent);
      rows_.back().front() = "  " + key;
    }
    return rows_[at->second][plan + 1];
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  size_t plans_;
  std::vector<Row> rows_;
  std::map<std::string, size_t> at_;
};

/// "all_gather w over data, forward" -> what it sends in a step.
std::vector<Row> collectives(const std::vector<Json>& plans) {
  Rows rows(plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    std::map<std::string, int64_t> bytes;
    for (const Json& one : plans[i]["collectives"]) {
      const std::string key =
          fmt::format("{} {} over {}, {}", one["kind"].get<std::string>(), one["tensor"].get<std::string>(),
                      text(one["axes"]), one["phase"].get<std::string>());
      bytes[key] += one["bytes"].get<int64_t>() * one["count"].get<int64_t>();
      rows.cell(key, i) = meshrt::bytes_text(bytes[key]);
    }
  }
  return rows.rows();
}

/// "[batch/data, embed] partial sum over data at pipe 0 or 3"
std::string placement(const Json& tensor) {
  std::vector<std::string> dims;
  const Json owns = tensor.value("owns", Json::object()), at = tensor.value("at", Json::object());
  for (const auto& [dim, axes] : tensor["placement"].items()) {
    const std::string dealt = owns.contains(dim) ? deal_text(meshrt::deal_of(owns[dim].get<std::string>())) : "";
    dims.push_back(
        axes.empty() ? dim : fmt::format("{}/{}{}", dim, fmt::join(axes.get<std::vector<std::string>>(), "*"), dealt));
  }
  std::string lies = fmt::format("[{}]", fmt::join(dims, ", "));
  for (const auto& [axis, reduce] : tensor["partial"].items())
    lies += fmt::format(" partial {} over {}", reduce.get<std::string>(), axis);
  for (const auto& [axis, coordinates] : at.items())
    lies += fmt::format(" at {} {}", axis, fmt::join(coordinates.get<std::vector<int64_t>>(), " or "));
  return lies;
}

std::vector<Row> differing_values(const std::vector<Json>& plans) {
  Rows rows(plans.size());
  for (size_t i = 0; i < plans.size(); ++i)
    for (const Json& tensor : plans[i]["tensors"]) {
      std::string& lies = rows.cell(tensor["name"], i);
      if (lies == absent) lies = placement(tensor);
    }
  std::vector<Row> differing;
  for (const Row& one : rows.rows())
    if (std::adjacent_find(one.begin() + 1, one.end(), std::not_equal_to{}) != one.end()) differing.push_back(one);
  return differing;
}

/// What a plan says of a collective or a value: a number, and how it lies.
struct Item {
  std::string name, place, lies;
  double amount = 0;  // bytes of a step, or that a rank holds
  double seconds = 0;
};
using Items = std::vector<std::pair<std::string, Item>>;

Item& item_called(Items& items, const std::string& key, Item made) {
  const auto known = std::ranges::find(items, key, &Items::value_type::first);
  if (known != items.end()) return known->second;
  items.emplace_back(key, std::move(made));
  return items.back().second;
}

std::string place_of(const Json& one) {
  const int line = one["line"];
  return line == 0 ? "" : fmt::format("{}:{}", one["file"].get<std::string>(), line);
}

Items sent_by(const Json& plan) {
  Items items;
  for (const Json& one : plan["collectives"]) {
    const std::string name =
        fmt::format("{} {} over {}, {}", one["kind"].get<std::string>(), one["tensor"].get<std::string>(),
                    text(one["axes"]), one["phase"].get<std::string>());
    Item& item = item_called(items, name + place_of(one), {name, place_of(one), ""});
    item.amount += one["bytes"].get<double>() * one["sending"].get<double>();
    item.seconds += one["seconds"].get<double>() * one["count"].get<double>();
  }
  return items;
}

Items held_by(const Json& plan) {
  Items items;
  for (const Json& one : plan["tensors"]) {
    Item& item = item_called(items, one["name"].get<std::string>() + place_of(one),
                             {one["name"], place_of(one), placement(one)});
    item.amount = one["bytes"].get<double>();
  }
  return items;
}

/// Those that are not alike in both, by how much they change; one that is not there is empty.
std::vector<std::pair<Item, Item>> changed(const Items& before, const Items& after) {
  std::vector<std::pair<Item, Item>> pairs;
  const auto other = [](const Items& items, const std::string& key) {
    const auto found = std::ranges::find(items, key, &Items::value_type::first);
    return found == items.end() ? Item{} : found->second;
  };
  for (const auto& [key, item] : before) pairs.emplace_back(item, other(after, key));
  for (const auto& [key, item] : after)
    if (std::ranges::find(before, key, &Items::value_type::first) == before.end()) pairs.emplace_back(Item{}, item);
  std::erase_if(pairs, [](const auto& pair) {
    return pair.first.amount == pair.second.amount && pair.first.lies == pair.second.lies &&
           pair.first.name == pair.second.name;
  });
  std::ranges::stable_sort(pairs, std::greater{},
                           [](const auto& pair) { return std::abs(pair.second.amount - pair.first.amount); });
  return pairs;
}

std::string bytes_change(double from, double to) {
  const auto text = [](double bytes) { return meshrt::bytes_text(static_cast<int64_t>(bytes)); };
  if (from == to) return "";
  return (to > from ? "+" : "-") + text(std::abs(to - from));
}

std::string amount_text(const Item& item) {
  return item.name.empty() ? absent : meshrt::bytes_text(static_cast<int64_t>(item.amount));
}

const Item& either(const std::pair<Item, Item>& pair) { return pair.first.name.empty() ? pair.second : pair.first; }

/// Of any of the plans, in the order in which they come; not what each rank of a pipeline has.
std::vector<std::string> kinds_of_memory(const std::vector<Json>& plans) {
  std::vector<std::string> kinds;
  for (const Json& plan : plans)
    for (const auto& one : plan["memory"].items())
      if (one.value().is_number() && std::ranges::count(kinds, one.key()) == 0) kinds.push_back(one.key());
  return kinds;
}

bool has_pipeline(const Json& plan) { return plan.contains("pipeline"); }

double bubble_of(const Json& plan) { return has_pipeline(plan) ? plan["pipeline"]["bubble_seconds"].get<double>() : 0; }

}  // namespace

std::string changes_between(const Json& before, const Json& after) {
  const auto seconds = [&](const char* title, double from, double to) {
    return Row{title, time_text(from), time_text(to),
               from == to ? "" : (to > from ? "+" : "-") + time_text(std::abs(to - from))};
  };
  const auto bytes = [](std::string title, const Json& from, const Json& to) {
    return Row{std::move(title), meshrt::bytes_text(from), meshrt::bytes_text(to), bytes_change(from, to)};
  };
  std::vector<Row> rows{{"layout", before["layout"], after["layout"], "change"},
                        {"mesh", axes_of(before), axes_of(after), ""},
                        seconds("step", before["predicted_seconds"], after["predicted_seconds"]),
                        seconds("  compute", before["compute_seconds"], after["compute_seconds"]),
                        seconds("  exposed communication", before["exposed_seconds"], after["exposed_seconds"])};
  if (has_pipeline(before) || has_pipeline(after))
    rows.push_back(seconds("  bubble", bubble_of(before), bubble_of(after)));
  rows.push_back(bytes("sent", before["communication_bytes"], after["communication_bytes"]));
  for (const std::string& kind : kinds_of_memory({before, after}))
    rows.push_back(bytes(kind == "peak" ? "memory a rank" : "  " + kind, before["memory"].value(kind, int64_t{0}),
                         after["memory"].value(kind, int64_t{0})));
  const auto sent = changed(sent_by(before), sent_by(after)), held = changed(held_by(before), held_by(after));
  rows.push_back({""});
  rows.push_back({sent.empty() ? "collectives: no change" : "collectives that change, bytes of a step"});
  for (const auto& pair : sent)
    rows.push_back({"  " + either(pair).name, amount_text(pair.first), amount_text(pair.second),
                    bytes_change(pair.first.amount, pair.second.amount), either(pair).place});
  rows.push_back({""});
  rows.push_back({held.empty() ? "values: no change" : "values that change, bytes of a rank"});
  for (const auto& pair : held)
    rows.push_back({"  " + either(pair).name, amount_text(pair.first), amount_text(pair.second),
                    bytes_change(pair.first.amount, pair.second.amount), either(pair).place,
                    fmt::format("{} to {}", pair.first.name.empty() ? absent : pair.first.lies,
                                pair.second.name.empty() ? absent : pair.second.lies)});
  return in_columns(rows);
}

Json changes_json(const Json& before, const Json& after) {
  const auto both = [](const Json& from, const Json& to) { return Json{{"before", from}, {"after", to}}; };
  Json json{{"schema", 1}, {"layouts", Json::array({before["layout"], after["layout"]})}};
  for (const char* key : {"predicted_seconds", "compute_seconds", "exposed_seconds", "communication_bytes"})
    json[key] = both(before[key], after[key]);
  json["memory"] = both(before["memory"]["peak"], after["memory"]["peak"]);
  const auto list = [](const std::vector<std::pair<Item, Item>>& pairs) {
    Json items = Json::array();
    for (const auto& pair : pairs)
      items.push_back({{"name", either(pair).name},
                       {"place", either(pair).place},
                       {"before", pair.first.amount},
                       {"after", pair.second.amount}});
    return items;
  };
  json["collectives"] = list(changed(sent_by(before), sent_by(after)));
  json["values"] = list(changed(held_by(before), held_by(after)));
  return json;
}

std::string axes_of(const Json& plan) {
  std::string axes;
  for (const auto& [axis, size] : plan["mesh"]["axes"].items())
    axes += fmt::format("{}{}: {}", axes.empty() ? "" : " ", axis, size.get<int64_t>());
  if (!axes.empty()) return axes;
  const std::string name = plan["mesh"]["name"];
  return name.empty() ? "one rank" : name;
}

std::string compared(const std::vector<Json>& plans) {
  const auto time = [](const char* key) { return [key](const Json& plan) { return time_text(plan[key]); }; };
  std::vector<Row> rows{row("layout", plans, [](const Json& plan) { return plan["layout"].get<std::string>(); }),
                        row("mesh", plans, axes_of), row("step", plans, time("predicted_seconds")),
                        row("  compute", plans, time("compute_seconds")),
                        row("  exposed communication", plans, time("exposed_seconds"))};
  if (std::ranges::any_of(plans, has_pipeline))
    rows.push_back(row("  bubble", plans, [](const Json& plan) { return time_text(bubble_of(plan)); }));
  rows.push_back(row("sent", plans, [](const Json& plan) { return meshrt::bytes_text(plan["communication_bytes"]); }));
  for (const std::string& kind : kinds_of_memory(plans))
    rows.push_back(row(kind == "peak" ? "memory a rank" : "  " + kind, plans,
                       [&](const Json& plan) { return meshrt::bytes_text(plan["memory"].value(kind, int64_t{0})); }));
  const auto section = [&](const char* title, const std::vector<Row>& more) {
    rows.push_back({""});
    rows.push_back({title + std::string(more.empty() ? ": none" : "")});
    rows.insert(rows.end(), more.begin(), more.end());
  };
  section("collectives of a training step, each with what the rank sends that sends most of it", collectives(plans));
  section("values that lie differently", differing_values(plans));
  return in_columns(rows);
}

}  // namespace mesh
