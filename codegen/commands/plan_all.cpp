#include "codegen/commands/plan_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "codegen/commands/compare_plans.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/table.h"
#include "codegen/elaborate/declarations.h"
#include "frontend/imports.h"
#include "frontend/lint_levels.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

using Json = nlohmann::ordered_json;
using Sizes = std::map<std::string, int64_t>;  // by axis

/// Every way to share `ranks` among the axes from `first` on.
void share_out(const std::vector<ast::Axis>& axes, size_t first, int64_t ranks, Sizes& sizes, std::vector<Sizes>& all) {
  if (first + 1 >= axes.size()) {
    sizes[axes[first].name.text] = ranks;
    all.push_back(sizes);
    return;
  }
  for (int64_t size = 1; size <= ranks; ++size) {
    if (ranks % size != 0) continue;
    sizes[axes[first].name.text] = size;
    share_out(axes, first + 1, ranks / size, sizes, all);
  }
}

/// What `--mesh` may say for the layout; of a mesh as it is written: nothing.
std::vector<Sizes> meshes_of(const ast::Mesh* mesh, std::optional<int64_t> ranks) {
  std::vector<Sizes> all;
  Sizes sizes;
  if (mesh != nullptr && ranks && !mesh->axes.empty()) share_out(mesh->axes, 0, *ranks, sizes, all);
  return all.empty() ? std::vector<Sizes>(1) : all;
}

Json without_details(Json plan) {
  for (const char* key : {"schema", "machine", "precision", "tensors", "collectives"}) plan.erase(key);
  return plan;
}

/// The plan, or why there is none.
Json planned(const CompileRequest& request, const std::string& mesh, const DiagnosticSink& levels, SourceMap& sources) {
  DiagnosticSink found = with_levels_of(levels);
  Json why{{"code", "internal"}, {"message", ""}};
  try {
    if (const std::optional<Compiled> compiled = compile(request, sources, found); compiled && !found.has_errors())
      return without_details(plan_json(*compiled, sources));
    for (const Diagnostic& one : found.diagnostics()) {
      if (one.level != Level::error) continue;
      why = {{"code", one.code}, {"message", one.message}};
      if (!one.span().known()) break;
      why["file"] = sources.file_name(one.span());
      why["line"] = sources.begin(one.span()).line;
      break;
    }
  } catch (const std::logic_error& mistake) {  // of the compiler: other layouts are still worth a row
    why["message"] = mistake.what();
  }
  Json axes = Json::object();
  for (const auto& [axis, size] : request.mesh) axes[axis] = size;
  return {{"layout", request.layout}, {"mesh", {{"name", mesh}, {"axes", axes}}}, {"error", why}};
}

bool is_planned(const Json& plan) { return !plan.contains("error"); }

}  // namespace

bool trains_apart(const Json& plan) { return plan.contains("outer_step"); }

std::vector<Json> plans_of_layouts(CompileRequest request, const DiagnosticSink& levels, SourceMap& sources) {
  DiagnosticSink unheard;
  const SourceProgram program = load_program(request.files, sources, unheard);
  const Declarations declared = declarations_of(program, unheard);
  const std::optional<int64_t> ranks = std::exchange(request.ranks, {});
  std::vector<Json> plans;
  for (const ast::Layout* layout : declared.layouts)
    for (const Sizes& sizes : meshes_of(declared.mesh(layout->mesh.text), ranks)) {
      request.layout = layout->name.text;
      request.mesh = sizes;
      plans.push_back(planned(request, layout->mesh.text, levels, sources));
    }
  std::ranges::stable_sort(plans, [](const Json& a, const Json& b) {
    if (is_planned(a) != is_planned(b)) return is_planned(a);
    return is_planned(a) && a["predicted_seconds"].get<double>() < b["predicted_seconds"].get<double>();
  });
  return plans;
}

std::vector<Json> plan_all(Session& session) {
  CompileRequest request = session.request;
  session.request.stop_after = "graph";
  session.compile();
  if (session.failed()) return {};
  return plans_of_layouts(std::move(request), session.sink, session.sources);
}

std::string table_of_plans(const std::vector<Json>& plans) {
  std::vector<std::vector<std::string>> rows{{"layout", "mesh", "step", "compute", "exposed", "sent", "memory a rank"}};
  for (const Json& plan : plans) {
    rows.push_back({plan["layout"], axes_of(plan)});
    if (is_planned(plan)) {
      for (const char* key : {"predicted_seconds", "compute_seconds", "exposed_seconds"})
        rows.back().push_back(time_text(plan[key]));
      rows.back().push_back(meshrt::bytes_text(plan["communication_bytes"]));
      rows.back().push_back(meshrt::bytes_text(plan["memory"]["peak"]));
      if (trains_apart(plan)) rows.back().emplace_back("changes numbers");
      continue;
    }
    const Json& why = plan["error"];
    const std::string place =
        why.contains("file") ? fmt::format(" ({}:{})", why["file"].get<std::string>(), why["line"].get<int>()) : "";
    rows.back().push_back(
        fmt::format("cannot be: {}: {}{}", why["code"].get<std::string>(), why["message"].get<std::string>(), place));
  }
  return in_columns(rows);
}

}  // namespace mesh
