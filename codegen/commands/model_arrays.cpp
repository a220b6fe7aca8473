#include "codegen/commands/model_arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/graph/value_names.h"
#include "codegen/optimizer/want.h"
#include "frontend/suggest.h"
#include "meshrt/checkpoint.h"
#include "meshrt/failure.h"
#include "meshrt/path_pattern.h"
#include "meshrt/rename_map.h"

namespace mesh {

std::vector<std::string> parameter_paths(const Graph& graph) {
  std::vector<std::string> paths;
  for (const Stored& stored : graph.stored)
    if (stored.kind == StoredKind::parameter) paths.push_back(stored.path);
  return paths;
}

namespace {

using Arrays = std::map<std::string, meshrt::Array>;

// A pattern by which no parameter is called is a mistake.
void check_fresh(const std::vector<std::string>& patterns, const Graph& graph) {
  const std::vector<std::string> paths = parameter_paths(graph);
  for (const std::string& pattern : patterns) {
    if (!matching_paths(pattern, paths).empty()) continue;
    const auto near = did_you_mean(pattern, paths);
    throw meshrt::Failure(meshrt::Cause::data, fmt::format("--fresh {}: no parameter is called so{}", pattern,
                                                           near ? fmt::format("; did you mean `{}`?", *near)
                                                                : "; parameters are " + some_of(paths)));
  }
}

}  // namespace

Arrays read_model(const meshrt::ModelFiles& files, const Graph& graph, const std::set<std::string>& begun) {
  check_fresh(files.fresh, graph);
  if (files.paths.empty()) return {};
  const meshrt::SavedTensors saved = meshrt::SavedTensors::open(files.paths);
  const std::string& file = saved.path();
  const meshrt::RenameMap names = files.names.empty() ? meshrt::RenameMap() : meshrt::RenameMap::read(files.names);
  Arrays arrays;
  std::vector<std::string> missing, states, ignored;
  std::set<std::string> used;
  for (const Stored& stored : graph.stored) {
    const bool state = stored.kind == StoredKind::state;
    if (stored.kind != StoredKind::parameter && !state) continue;
    std::vector<std::string> dims;
    std::vector<int64_t> sizes;
    for (const DimId dim : stored.type.dims) {
      dims.push_back(graph.dim(dim).name);
      sizes.push_back(graph.dim(dim).size);
    }
    const meshrt::Pieces pieces =
        pieces_of(stored.path, dims, sizes, names, [&](const auto& name) { return saved.find(name); });
    used.insert(pieces.names.begin(), pieces.names.end());
    const auto is_fresh = [&](const auto& pattern) { return meshrt::path_matches(pattern, stored.path); };
    if (std::ranges::any_of(files.fresh, is_fresh) || begun.contains(stored.path)) continue;
    if (!pieces.misfit.empty()) throw meshrt::Failure(meshrt::Cause::data, fmt::format("{}: {}", file, pieces.misfit));
    // Only a run writes states.
    std::vector<std::string>& lacking = state && !saved.manifest() ? states : missing;
    lacking.insert(lacking.end(), pieces.missing.begin(), pieces.missing.end());
    if (pieces.arrays.empty()) continue;
    meshrt::Array& array = arrays[stored.path] = {pieces.arrays[0]->type, sizes, {}};
    for (const meshrt::NamedArray* piece : pieces.arrays)
      array.data.insert(array.data.end(), piece->data.begin(), piece->data.end());
  }
  for (const meshrt::NamedArray& tensor : saved.tensors())
    if (!used.contains(tensor.name) && !saved.of_optimizer(tensor.name)) ignored.push_back(tensor.name);
  if (!missing.empty())
    throw meshrt::Failure(meshrt::Cause::data,
                          fmt::format("{} lacks parameters of the model: {}; `--fresh PATTERN` begins them as the spec "
                                      "says{}",
                                      file, fmt::join(missing, ", "),
                                      ignored.empty() ? "" : fmt::format("; it has {}", fmt::join(ignored, ", "))));
  if (!states.empty())
    fmt::print(stderr, "note: {} lacks the states {}: they have their first values\n", file, fmt::join(states, ", "));
  if (!ignored.empty())
    fmt::print(stderr, "note: {} also holds {}, which the model does not use\n", file, fmt::join(ignored, ", "));
  return arrays;
}

}  // namespace mesh
