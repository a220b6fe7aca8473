#include "codegen/commands/compare_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

/// "[batch/data, embed] partial sum over data"
std::string placement(const Json& tensor) {
  std::vector<std::string> dims;
  const Json owns = tensor.value("owns", Json::object());
  for (const auto& [dim, axes] : tensor["placement"].items()) {
    const std::string dealt = owns.contains(dim) ? deal_text(meshrt::deal_of(owns[dim].get<std::string>())) : "";
    dims.push_back(
        axes.empty() ? dim : fmt::format("{}/{}{}", dim, fmt::join(axes.get<std::vector<std::string>>(), "*"), dealt));
  }
  std::string lies = fmt::format("[{}]", fmt::join(dims, ", "));
  for (const auto& [axis, reduce] : tensor["partial"].items())
    lies += fmt::format(" partial {} over {}", reduce.get<std::string>(), axis);
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

}  // namespace

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
  std::vector<Row> rows{
      row("layout", plans, [](const Json& plan) { return plan["layout"].get<std::string>(); }),
      row("mesh", plans, axes_of),
      row("step", plans, time("predicted_seconds")),
      row("  compute", plans, time("compute_seconds")),
      row("  exposed communication", plans, time("exposed_seconds")),
      row("sent", plans, [](const Json& plan) { return meshrt::bytes_text(plan["communication_bytes"]); })};
  for (const auto& [kind, bytes] : plans.front()["memory"].items())
    rows.push_back(row(kind == "peak" ? "memory a rank" : "  " + kind, plans,
                       [&](const Json& plan) { return meshrt::bytes_text(plan["memory"][kind]); }));
  const auto section = [&](const char* title, const std::vector<Row>& more) {
    rows.push_back({""});
    rows.push_back({title + std::string(more.empty() ? ": none" : "")});
    rows.insert(rows.end(), more.begin(), more.end());
  };
  section("collectives of a training step, with what the rank that sends most sends", collectives(plans));
  section("values that lie differently", differing_values(plans));
  return in_columns(rows);
}

}  // namespace mesh
