// fetch.cpp: `meshc fetch SPEC NAME...`: values, gradients and parameters of a step as whole arrays in npy files. The
// program is interpreted, its ranks are threads.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "codegen/commands/command.h"
#include "codegen/commands/model_arrays.h"
#include "codegen/commands/model_options.h"
#include "codegen/commands/session.h"
#include "codegen/graph/value_names.h"
#include "codegen/interpret/arrays.h"
#include "codegen/interpret/interpret.h"
#include "codegen/optimizer/norms.h"
#include "codegen/optimizer/want.h"
#include "frontend/suggest.h"
#include "meshrt/failure.h"
#include "meshrt/npy.h"
#include "meshrt/safetensors.h"

namespace mesh {

namespace {

using Arrays = std::map<std::string, meshrt::Array>;

struct FetchOptions {
  OutputOptions output;
  SpecOptions spec;
  std::vector<std::string> feeds;  // "NAME=FILE.npy"
  ModelOptions model;
  std::string save_params, out;
  bool evaluate = false;
  std::optional<uint64_t> seed;
  int64_t steps = 0;  // 0: not given
};

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

std::string file_of(const FetchOptions& options, const std::string& name) {
  return (std::filesystem::path(options.out) / (name + ".npy")).string();
}

// What is read is not written over.
void keep_inputs(const FetchOptions& options, const std::vector<std::string>& names) {
  std::vector<std::string> read = options.model.files.paths;
  for (const std::string& feed : options.feeds) read.push_back(feed.substr(feed.find('=') + 1));
  for (const std::string& name : names) keep_read("--out", file_of(options, name), read);
  read.insert(read.end(), options.spec.arguments.begin(), options.spec.arguments.end());
  keep_read("--save-params", options.save_params, read);
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

// NumPy has no bf16: its numbers come as f32.
meshrt::Array readable(const meshrt::Array& array) {
  return array.type == meshrt::Type::bf16 ? fit_array(array, meshrt::Type::f32, array.shape, {}, -1, "a parameter")
                                          : array;
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

constexpr const char* evaluated_entry = "fetch";

std::vector<std::string> value_names(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return is_parameter_name(name); });
  return names;
}

/// What a step alone has.
void check_evaluation(const FetchOptions& options, const std::vector<std::string>& names) {
  if (options.steps > 0) throw UsageError("--steps trains, --evaluate does not: give one of them");
  for (const std::string& name : names)
    if (is_gradient_name(name) || name == norm_name)
      throw UsageError(fmt::format("`{}` is of a training step: an evaluation has no gradients", name));
}

int fetch(FetchOptions options) {
  const std::vector<std::string> names = options.spec.take_names();
  if (names.empty() && options.save_params.empty())
    throw UsageError("nothing to fetch: give names of values, grad(PATH) or param(PATH) after the spec");
  if (options.seed && !options.model.files.paths.empty() && options.model.files.fresh.empty())
    throw UsageError("--seed has no effect beside --params, but for what --fresh names");
  if (options.evaluate) check_evaluation(options, names);
  if (options.out.empty() && !names.empty()) throw UsageError("--out DIR is needed: where do the arrays go?");
  Session session(options.spec, options.output);
  if (!options.evaluate) session.request.wanted = names;
  else if (const std::vector<std::string> values = value_names(names); !values.empty())
    session.request.entries = {{evaluated_entry, values}};
  const std::optional<Compiled> compiled = session.compile();
  if (!compiled) return exit_diagnostics;
  const Graph& graph = compiled->program.sharded.graph;

  const std::vector<std::string> parameters = chosen_parameters(names, graph);

  std::vector<std::string> written;
  for (const Wanted& one : graph.wanted) written.push_back(one.name);
  for (const Output& one : graph.outputs) written.push_back(one.name);
  for (const std::string& path : parameters) written.push_back(fmt::format("param({})", path));
  keep_inputs(options, written);

  InterpretRequest request{compiled->program, &session.sources};
  request.feeds = read_feeds(options.feeds);
  std::set<std::string> fed;  // a state may begin from a file too
  for (const Stored& stored : graph.stored) {
    if (stored.kind != StoredKind::state) continue;
    auto first = request.feeds.extract(stored.path);
    if (!first) continue;
    fed.insert(stored.path);
    request.stored[stored.path] = std::move(first.mapped());
  }
  request.stored.merge(read_model(options.model.files, graph, fed));
  request.seed = options.seed.value_or(1);
  request.steps = std::max<int64_t>(1, options.steps);
  request.planned_steps = request.steps;
  if (!session.request.entries.empty()) request.entry = evaluated_entry;
  InterpretResult result = interpret(request);
  if (result.exit_code != 0) return result.exit_code;
  // Without --steps nothing is updated: the parameters are those of before the step.
  const Arrays& stored = options.steps > 0 ? result.after : result.before;
  Arrays arrays = std::move(options.evaluate ? result.outputs : result.wanted);
  for (const std::string& path : parameters) arrays[fmt::format("param({})", path)] = readable(stored.at(path));
  save_parameters(options.save_params, graph, stored);

  if (!arrays.empty()) std::filesystem::create_directories(options.out);
  nlohmann::json listed = nlohmann::json::array();
  for (const auto& [name, array] : arrays) {
    const std::string file = file_of(options, name);
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
       {"meshc fetch gpt.mesh layer.attn.score --layout zero --feed token=t.npy --feed target=u.npy --out out",
        "a value inside the loop, computed by all ranks of a layout"},
       {"meshc fetch mlp.mesh 'param(w1)' --params w.safetensors --steps 5 --precision f64 ... --out out",
        "a parameter after five steps from given ones"},
       {"meshc fetch lora.mesh logits --params base.safetensors --params adapter.safetensors ... --out out",
        "parameters from two files"},
       {"meshc fetch head.mesh --params base.safetensors --fresh '**.head' ... --save-params out/all.safetensors",
        "all but a new head from a file; the whole is written"},
       {"meshc fetch vit.mesh logits --evaluate --params out/ckpt --feed image=x.npy --out out",
        "of a trained model: no dropout, running statistics; no labels are needed"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<FetchOptions>();
        options->spec.declare(app, false);
        app.get_option("spec")->type_name("SPEC [LAYOUTS.mesh] NAME...")->description("");
        app.add_option("--feed", options->feeds,
                       "a whole array for an input (every one needs one that is read) or for a state to begin with")
            ->type_name("NAME=FILE.npy")
            ->take_all()
            ->allow_extra_args(false);
        options->model.declare(app);
        app.add_option("--seed", options->seed, "begin with the spec's initial values of this seed (default 1)")
            ->type_name("N")
            ->check(CLI::NonNegativeNumber);
        app.add_flag("--evaluate", options->evaluate,
                     "values as an evaluation has them: `training` is false; only inputs that they need are fed");
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
