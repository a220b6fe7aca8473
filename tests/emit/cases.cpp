#include "tests/emit/cases.h"

#include <filesystem>
#include <stdexcept>

#include "codegen/emit/emit_program.h"
#include "frontend/render.h"
#include "tests/program/prefetched.h"
#include "tests/program/staged.h"

namespace mesh::tests {

namespace {

const std::map<std::string, std::string> small_mlp = {{"batch", "6"}, {"pixel", "20"}, {"hidden", "18"}};
const std::map<std::string, std::string> small_gpt = {
    {"batch", "4"}, {"seq", "8"}, {"embed", "12"}, {"heads", "2"}, {"head_dim", "6"}, {"vocab", "19"}, {"layer", "2"}};

/// An entry that no program has but of these tests: values of a forward pass, one of them inside the loop.
const std::vector<ValuesEntry> scores = {{"scores", {"logits", "layer.feed"}}};

/// A pattern names what is named already, too.
const std::vector<std::string> watched = {"grad_norm", "grad(**)", "**"};

Program staged_along_pipe(Program program) { return staged(std::move(program), "pipe"); }

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"mlp_whole", "specs/mlp.mesh", "whole", {{"all", 1}}, small_mlp},
      {"mlp_data", "specs/mlp.mesh", "data", {{"all", 2}}, small_mlp},
      {"mlp_data_uneven", "specs/mlp.mesh", "data", {{"all", 4}}, small_mlp},
      {"mlp_model", "specs/mlp.mesh", "model", {{"all", 4}}, small_mlp},
      {"mlp_both", "specs/mlp.mesh", "both", {{"rows", 2}, {"columns", 2}}, small_mlp},
      {"mlp_weights", "specs/mlp.mesh", "weights", {{"rows", 2}, {"columns", 2}}, small_mlp},
      {"gpt_one", "specs/gpt.mesh", "default", {{"data", 1}, {"model", 1}}, small_gpt},
      {"gpt_data", "specs/gpt.mesh", "default", {{"data", 2}, {"model", 1}}, small_gpt},
      {"gpt_model", "specs/gpt.mesh", "default", {{"data", 1}, {"model", 2}}, small_gpt},
      {"gpt_double", "specs/gpt.mesh", "default", {{"data", 2}, {"model", 2}}, small_gpt, "f64"},
      {"gpt_megatron", "specs/gpt.mesh", "megatron", {{"data", 2}, {"model", 2}}, small_gpt},
      {"gpt_ring", "specs/gpt.mesh", "ring", {{"data", 1}, {"ctx", 2}}, small_gpt},
      {"gpt_ring_uneven", "specs/gpt.mesh", "ring", {{"data", 1}, {"ctx", 3}}, small_gpt, "f64"},
      {"ring_zigzag", "tests/program/ring.mesh", "zigzag", {{"ctx", 3}}, {}, "f64", "Causal"},
      {"ring_cross", "tests/program/ring.mesh", "all", {{"ctx", 3}}, {}, "f32", "Cross"},
      {"ring_near", "tests/program/ring.mesh", "own", {{"ctx", 5}}, {}, "f64", "Near"},
      {"ring_near_zigzag", "tests/program/ring.mesh", "zigzag", {{"ctx", 4}}, {}, "f64", "Near"},
      {"ring_before", "tests/program/ring.mesh", "zigzag", {{"ctx", 4}}, {}, "f64", "Before"},
      {"ring_shared", "tests/program/ring.mesh", "own", {{"ctx", 3}}, {}, "f32", "Shared"},
      {"mlp_watched", "specs/mlp.mesh", "both", {{"rows", 2}, {"columns", 2}}, small_mlp, "f32", "", watched},
      {"gpt_watched", "specs/gpt.mesh", "default", {{"data", 2}, {"model", 2}}, small_gpt, "f64", "", watched},
      {"gpt_scores", "specs/gpt.mesh", "default", {{"data", 2}, {"model", 2}}, small_gpt, "f64", "", {}, scores},
      {"begin_tiles", "tests/emit/specs/begin.mesh", "tiles", {{"a", 2}, {"b", 3}}, {}},
      {"functions", "tests/emit/specs/functions.mesh", "default", {{"x", 2}}, {}},
      {"slices_one", "tests/emit/specs/slices.mesh", "tokens", {{"x", 1}}, {}},
      {"slices_tokens", "tests/emit/specs/slices.mesh", "tokens", {{"x", 3}}, {}},
      {"slices_both", "tests/emit/specs/slices.mesh", "both", {{"x", 2}, {"y", 2}}, {}},
      {"noise", "tests/emit/specs/noise.mesh", "default", {{"x", 2}}, {}},
      {"noise_tiles", "tests/emit/specs/noise.mesh", "tiles", {{"x", 2}, {"y", 3}}, {}, "f64"},
      {"state", "tests/specs/state.mesh", "samples", {{"d", 2}}, {}, "", "Normed"},
      {"state_plane", "tests/specs/state.mesh", "fields", {{"p", 3}, {"q", 2}}, {}, "", "Normed"},
      {"field", "tests/specs/state.mesh", "fields", {{"p", 3}, {"q", 2}}, {}, "", "Field"},
      {"neighbours_one", "tests/emit/specs/neighbours.mesh", "rows", {{"a", 1}}, {}},
      {"neighbours_rows", "tests/emit/specs/neighbours.mesh", "rows", {{"a", 3}}, {}},
      {"neighbours_tiles", "tests/emit/specs/neighbours.mesh", "tiles", {{"a", 2}, {"b", 2}}, {}},
      {"neighbours_columns", "tests/emit/specs/neighbours.mesh", "columns", {{"a", 5}}, {}},
      {"windows_samples", "tests/emit/specs/windows.mesh", "samples", {}, {}},
      {"windows_rows", "tests/emit/specs/windows.mesh", "rows", {}, {}, "f64"},
      {"windows_tiles", "tests/emit/specs/windows.mesh", "tiles", {}, {}},
      {"windows_channels", "tests/emit/specs/windows.mesh", "channels", {}, {}, "f64"},
      {"divided_two", "tests/emit/specs/divided.mesh", "turns", {{"a", 2}}, {}},
      {"divided_three", "tests/emit/specs/divided.mesh", "turns", {{"a", 3}}, {}, "f64"},
      {"divided_seven", "tests/emit/specs/divided.mesh", "turns", {{"a", 7}}, {}, "f64"},
      {"divided_both", "tests/emit/specs/divided.mesh", "both", {}, {}},
      {"divided_inner", "tests/emit/specs/divided.mesh", "inner", {}, {}, "f64"},
      {"divided_order", "tests/emit/specs/divided.mesh", "order", {}, {}, "f64"},
      {"staged_samples", "tests/emit/specs/staged.mesh", "samples", {}, {}, "f32", "Staged", {}, {}, staged_along_pipe},
      {"staged_inner", "tests/emit/specs/staged.mesh", "inner", {}, {}, "f64", "Staged", {}, {}, staged_along_pipe},
      {"staged_tall", "tests/emit/specs/staged.mesh", "tall", {}, {}, "f32", "Staged", {}, {}, staged_along_pipe},
      {"staged_until", "tests/emit/specs/staged.mesh", "samples", {}, {}, "f32", "Relaxed", {}, {}, staged_along_pipe},
      {"replicas_three", "tests/emit/specs/replicas.mesh", "apart", {}, {}, "f64", "", watched},
      {"replicas_mean", "tests/emit/specs/replicas.mesh", "mean", {}, {}},
      {"replicas_both", "tests/emit/specs/replicas.mesh", "both", {}, {}},
      {"pipe_fill", "tests/emit/specs/pipelined.mesh", "fill", {{"pipe", 3}}, {}},
      {"pipe_turns", "tests/emit/specs/pipelined.mesh", "turns", {{"pipe", 4}}, {}, "f64"},
      {"pipe_eager", "tests/emit/specs/pipelined.mesh", "eager", {{"pipe", 2}}, {{"layer", "4"}}},
      {"pipe_chunks", "tests/emit/specs/pipelined.mesh", "inter", {{"pipe", 2}}, {}},
      {"pipe_half", "tests/emit/specs/pipelined.mesh", "half", {{"pipe", 3}}, {}},
      {"pipe_vee", "tests/emit/specs/pipelined.mesh", "vee", {{"pipe", 2}}, {}, "f64"},
      {"pipe_one", "tests/emit/specs/pipelined.mesh", "turns", {{"pipe", 1}}, {}},
      {"pipe_ends", "tests/emit/specs/pipelined.mesh", "ends", {{"pipe", 4}}, {}},
      {"pipe_pairs", "tests/emit/specs/pipelined.mesh", "pairs", {{"pipe", 2}}, {{"layer", "4"}}},
      {"pairs", "tests/emit/specs/pipelined.mesh", "pairs", {{"pipe", 1}}, {{"layer", "6"}}, "f64"},
      {"chain_rounds", "tests/emit/specs/chain.mesh", "rounds", {{"pipe", 2}}, {}},
      {"chain_pairs", "tests/emit/specs/chain.mesh", "pairs", {{"pipe", 2}}, {{"enc", "8"}, {"dec", "4"}}, "f64"},
      {"chunk_norm", "tests/program/chunk_norm.mesh", "split", {{"data", 2}, {"pipe", 2}}, {}},
      {"chain_vee", "tests/emit/specs/chain.mesh", "vee", {{"pipe", 3}}, {}, "f64"},
      {"pipe_both", "tests/emit/specs/pipelined.mesh", "both", {{"pipe", 2}, {"data", 2}, {"model", 2}}, {}},
      {"pipe_watched",
       "tests/emit/specs/pipelined.mesh",
       "both",
       {{"pipe", 2}, {"data", 1}, {"model", 3}},
       {},
       "f64",
       "",
       {"grad_norm", "grad(**)"}},
      {"pipe_gpt",
       "specs/gpt.mesh",
       "stages",
       {{"pipe", 2}, {"data", 2}, {"model", 2}},
       small_gpt,
       "f32",
       "",
       {},
       {},
       nullptr,
       "tests/emit/specs/gpt_stages.mesh"},
      {"gpt_prefetched",
       "specs/gpt.mesh",
       "default",
       {{"data", 2}, {"model", 2}},
       small_gpt,
       "f32",
       "",
       {},
       {},
       prefetched},
      {"noise_prefetched",
       "tests/emit/specs/noise.mesh",
       "tiles",
       {{"x", 2}, {"y", 3}},
       {},
       "f64",
       "",
       {},
       {},
       prefetched},
      {"gpt_mixed",
       "specs/gpt.mesh",
       "default",
       {{"data", 2}, {"model", 2}},
       small_gpt,
       "mixed",
       "",
       {},
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"gpt_mixed_zero",
       "specs/gpt.mesh",
       "zero",
       {{"data", 3}},
       small_gpt,
       "mixed",
       "",
       watched,
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"gpt_mixed_pipe",
       "specs/gpt.mesh",
       "pipe",
       {{"pipe", 2}},
       small_gpt,
       "mixed",
       "",
       {},
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"mlp_mixed",
       "specs/mlp.mesh",
       "both",
       {{"rows", 2}, {"columns", 2}},
       small_mlp,
       "mixed",
       "",
       {},
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"gpt_stored_zero",
       "specs/gpt.mesh",
       "zero",
       {{"data", 3}},
       small_gpt,
       "stored",
       "",
       watched,
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"gpt_stored_pipe",
       "specs/gpt.mesh",
       "pipe",
       {{"pipe", 2}},
       small_gpt,
       "stored",
       "",
       {},
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"gpt_kept",
       "specs/gpt.mesh",
       "default",
       {{"data", 2}, {"model", 2}},
       small_gpt,
       "kept",
       "",
       {},
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"replicas_stored",
       "tests/emit/specs/replicas.mesh",
       "both",
       {},
       {},
       "stored",
       "",
       {},
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"gpt_hosts",
       "specs/gpt.mesh",
       "default",
       {{"data", 2}, {"model", 2}},
       small_gpt,
       "f32",
       "",
       {},
       {},
       nullptr,
       {},
       "tests/emit/specs/hosts.yaml"},
      {"narrow_rows", "tests/emit/specs/narrow.mesh", "rows", {}, {}},
      {"narrow_columns", "tests/emit/specs/narrow.mesh", "columns", {}, {}},
      {"narrow_kept",
       "tests/emit/specs/narrow.mesh",
       "columns",
       {},
       {},
       "kept",
       "",
       {},
       {},
       nullptr,
       "tests/emit/specs/mixed.mesh"},
      {"narrow_wide", "tests/emit/specs/narrow.mesh", "rows", {}, {}, "f64"},
      {"neighbours_deep", "tests/emit/specs/neighbours.mesh", "deep", {{"a", 5}}, {}, "f64"},
  };
  return all;
}

Compiled compiled(const Case& one, SourceMap& sources) {
  CompileRequest request;
  for (const std::string& file : {one.spec, one.layouts})
    if (!file.empty()) request.files.push_back(std::string(PROJECT_ROOT) + "/" + file);
  if (!one.machine.empty()) request.machine_file = std::string(PROJECT_ROOT) + "/" + one.machine;
  request.layout = one.layout;
  request.mesh = one.mesh;
  request.set = one.set;
  request.precision = one.precision;
  request.model = one.model;
  request.watch = one.watch;
  request.entries = one.entries;
  DiagnosticSink sink;
  std::optional<Compiled> result = compile(request, sources, sink);
  if (!result) throw std::runtime_error(one.name + ":\n" + render_all(sink, sources));
  if (one.change != nullptr) result->program = one.change(std::move(result->program));
  return std::move(*result);
}

std::string emitted(const Case& one) {
  SourceMap sources;
  const Compiled result = compiled(one, sources);
  const std::string name = std::filesystem::path(one.spec).filename().string();
  return emit_program(result.program, sources, {name, "0123456789abcdef", "meshc build " + name, "0.0", one.precision});
}

}  // namespace mesh::tests
