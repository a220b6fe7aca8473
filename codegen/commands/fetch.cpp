// fetch.cpp: `meshc fetch SPEC NAME...`: values, gradients and parameters of a step as whole arrays in npy files. The
// program is interpreted, its ranks are threads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "codegen/commands/command.h"
#include "codegen/commands/session.h"
#include "codegen/graph/value_names.h"
#include "codegen/interpret/arrays.h"
#include "codegen/interpret/interpret.h"
#include "codegen/optimizer/want.h"
#include "frontend/suggest.h"
#include "meshrt/checkpoint.h"
#include "meshrt/failure.h"
#include "meshrt/npy.h"
#include "meshrt/path_pattern.h"
#include "meshrt/rename_map.h"
#include "meshrt/safetensors.h"

namespace mesh {

namespace {

using Arrays = std::map<std::string, meshrt::Array>;

struct FetchOptions {
  OutputOptions output;
  SpecOptions spec;
  std::vector<std::string> feeds;  // "NAME=FILE.npy"
  std::vector<std::string> params, fresh;
  std::string names, save_params, out;
  std::optional<uint64_t> seed;
  int64_t steps = 0;  // 0: not given
};

// Of the arguments, files end with .mesh; the others are what to fetch.
std::vector<std::string> take_names(SpecOptions& spec) {
  std::vector<std::string> names;
  std::ranges::copy_if(spec.arguments, std::back_inserter(names),
                       [](const std::string& argument) { return !argument.ends_with(".mesh"); });
  std::erase_if(spec.arguments, [](const std::string& argument) { return !argument.ends_with(".mesh"); });
  return names;
}

Arrays read_feeds(const std::vector<std::string>& feeds) {
  Arrays arrays;
  for (const std::string& feed : feeds) {
    const size_t equals = feed.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == feed.size())
      throw UsageError(fmt::format("--feed {}: expected NAME=FILE.npy", feed));
    if (!arrays.emplace(feed.substr(0, equals), meshrt::read_npy(feed.substr(equals + 1))).second)
      throw UsageError(fmt::format("--feed {}: `{}` is fed twice", feed, feed.substr(0, equals)));
  }
  return arrays;
}

std::vector<std::string> parameter_paths(const Graph& graph) {
  std::vector<std::string> paths;
  for (const Stored& stored : graph.stored)
    if (stored.kind == StoredKind::parameter) paths.push_back(stored.path);
  return paths;
}

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

// Every parameter of the model must be in one of the files, but for fresh ones; what else is there is named and left.
Arrays read_parameters(const FetchOptions& options, const Graph& graph) {
  check_fresh(options.fresh, graph);
  if (options.params.empty()) return {};
  const meshrt::SavedTensors saved = meshrt::SavedTensors::open(options.params);
  const std::string& file = saved.path();
  const meshrt::RenameMap names = options.names.empty() ? meshrt::RenameMap() : meshrt::RenameMap::read(options.names);
  Arrays arrays;
  std::vector<std::string> missing, ignored;
  std::set<std::string> used;
  for (const Stored& stored : graph.stored) {
    if (stored.kind != StoredKind::parameter) continue;
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
    if (std::ranges::any_of(options.fresh, is_fresh)) continue;
    if (!pieces.misfit.empty()) throw meshrt::Failure(meshrt::Cause::data, fmt::format("{}: {}", file, pieces.misfit));
    missing.insert(missing.end(), pieces.missing.begin(), pieces.missing.end());
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
  if (!ignored.empty())
    fmt::print(stderr, "note: {} also holds {}, which the model does not use\n", file, fmt::join(ignored, ", "));
  return arrays;
}

// The paths that names of parameters ask for.
std::vector<std::string> chosen_parameters(const std::vector<std::string>& names, const Graph& graph) {
  std::vector<std::string> chosen;
  for (const std::string& name : names) {
    std::string pattern;
    if (!is_parameter_name(name, &pattern)) continue;
    const std::vector<std::string> paths = parameter_paths(graph), matches = matching_paths(pattern, paths);
    if (matches.empty()) {
      const auto near = did_you_mean(pattern, paths);
      throw meshrt::Failure(meshrt::Cause::data, fmt::format("there is no parameter `{}`{}", pattern,
                                                             paths.empty() ? std::string(": the model has none")
                                                             : near ? fmt::format("; did you mean `param({})`?", *near)
                                                                    : "; parameters are " + some_of(paths)));
    }
    chosen.insert(chosen.end(), matches.begin(), matches.end());
  }
  return chosen;
}

void save_parameters(const std::string& file, const Graph& graph, const Arrays& stored) {
  if (file.empty()) return;
  std::vector<meshrt::NamedArray> tensors;
  for (const std::string& path : parameter_paths(graph)) {
    const meshrt::Array& array = stored.at(path);
    tensors.push_back({path, array.type, array.shape, array.data});
  }
  std::error_code ignored;  // write_safetensors tells what is wrong
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
  meshrt::write_safetensors(file, tensors);
}

int fetch(FetchOptions options) {
  const std::vector<std::string> names = take_names(options.spec);
  if (names.empty() && options.save_params.empty())
    throw UsageError("nothing to fetch: give names of values, grad(PATH) or param(PATH) after the spec");
  if (options.seed && !options.params.empty() && options.fresh.empty())
    throw UsageError("--seed has no effect beside --params, but for what --fresh names");
  if (options.out.empty() && !names.empty()) throw UsageError("--out DIR is needed: where do the arrays go?");
  Session session(options.spec, options.output);
  session.request.wanted = names;
  const std::optional<Compiled> compiled = session.compile();
  if (!compiled) return exit_diagnostics;
  const Graph& graph = compiled->program.sharded.graph;

  const std::vector<std::string> parameters = chosen_parameters(names, graph);

  InterpretRequest request{compiled->program, &session.sources};
  request.feeds = read_feeds(options.feeds);
  request.stored = read_parameters(options, graph);
  for (const Stored& stored : graph.stored) {  // a state may begin from a file too
    if (stored.kind != StoredKind::state) continue;
    auto first = request.feeds.extract(stored.path);
    if (!first) continue;
    request.stored[stored.path] = std::move(first.mapped());
  }
  request.seed = options.seed.value_or(1);
  request.steps = std::max<int64_t>(1, options.steps);
  request.planned_steps = request.steps;
  InterpretResult result = interpret(request);
  if (result.exit_code != 0) return result.exit_code;
  // Without --steps nothing is updated: the parameters are those of before the step.
  const Arrays& stored = options.steps > 0 ? result.after : result.before;
  Arrays arrays = std::move(result.wanted);
  for (const std::string& path : parameters) arrays[fmt::format("param({})", path)] = stored.at(path);
  save_parameters(options.save_params, graph, stored);

  if (!arrays.empty()) std::filesystem::create_directories(options.out);
  nlohmann::json listed = nlohmann::json::array();
  for (const auto& [name, array] : arrays) {
    const std::string file = (std::filesystem::path(options.out) / (name + ".npy")).string();
    meshrt::write_npy(file, array.type, array.shape, array.data);
    if (options.output.json)
      listed.push_back({{"name", name}, {"file", file}, {"type", meshrt::name_of(array.type)}, {"shape", array.shape}});
    else fmt::print("{}\n", file);
  }
  if (options.output.json) fmt::print("{}\n", nlohmann::json({{"schema", 1}, {"fetched", listed}}).dump(2));
  return exit_ok;
}

}  // namespace

Command fetch_command() {
  return {
      "fetch",
      "compute values, gradients and parameters of a step, as npy files",
      "NAME is a value of the spec (loss, layer.attn.score), grad(PATH) or param(PATH); `*` stands for one part of a\n"
      "path, `**` for any number. Inside a repeat the loop's dim comes first. Arrays are whole, in logical order, and\n"
      "called after what was fetched: DIR/layer.attn.score.npy.\n"
      "Without --steps: forward and backward once, nothing is updated. With K: parameters after K updates on the same\n"
      "feeds, everything else as it is in step K before its update, but a state after it. Gradients are complete over "
      "ranks, before "
      "clipping\n"
      "and weight decay. A rate's schedule without `steps:` of its own ends at step K.",
      {{"meshc fetch mlp.mesh loss 'grad(**)' --feed image=x.npy --feed label=y.npy --out out",
        "the loss and all gradients"},
       {"meshc fetch gpt.mesh layer.attn.score --layout both --feed token=t.npy --feed target=u.npy --out out",
        "a value inside the loop, computed by all ranks of a layout"},
       {"meshc fetch mlp.mesh 'param(w1)' --params w.safetensors --steps 5 --precision f64 ... --out out",
        "a parameter after five steps from given ones"},
       {"meshc fetch lora.mesh logits --params base.safetensors --params adapter.safetensors ... --out out",
        "parameters from two files"},
       {"meshc fetch head.mesh --params base.safetensors --fresh '**.head' ... --save-params out/all.safetensors",
        "all but a new head from a file; the whole is written"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<FetchOptions>();
        options->spec.declare(app, false);
        app.get_option("spec")->type_name("SPEC [LAYOUTS.mesh] NAME...")->description("");
        app.add_option("--feed", options->feeds,
                       "a whole array for an input (every one needs one) or for a state to begin with")
            ->type_name("NAME=FILE.npy")
            ->take_all()
            ->allow_extra_args(false);
        CLI::Option* params =
            app.add_option("--params", options->params,
                           "the parameters to begin with: a file, or a checkpoint; of several, each has its own")
                ->type_name("FILE.safetensors")
                ->take_all()
                ->allow_extra_args(false)
                ->check(CLI::ExistingPath);
        app.add_option("--fresh", options->fresh,
                       "parameters that begin as the spec says, whether the files have them or not: a path or pattern")
            ->type_name("PATTERN")
            ->take_all()
            ->allow_extra_args(false)
            ->needs(params);
        app.add_option("--names", options->names, "a YAML map: what the parameters are called there")
            ->type_name("FILE.yaml")
            ->check(CLI::ExistingFile)
            ->needs(params);
        app.add_option("--seed", options->seed, "begin with the spec's initial values of this seed (default 1)")
            ->type_name("N");
        app.add_option("--steps", options->steps, "training steps to make")
            ->type_name("K")
            ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
        app.add_option("--out", options->out, "the folder for the arrays")->type_name("DIR");
        app.add_option("--save-params", options->save_params, "write all parameters to this file")
            ->type_name("FILE.safetensors");
        options->output.declare(app, true);
        return [options] { return fetch(*options); };
      }};
}

}  // namespace mesh
