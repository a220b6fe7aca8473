// The specs of the repository, made small, as programs: fused and not, under their layouts, equal to one rank.
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/program/lower.h"
#include "codegen/program/verify_program.h"
#include "tests/program/numbers.h"

namespace mesh {
namespace {

Compiled compiled(const CompileRequest& request) {
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<Compiled> result = compile(request, sources, sink);
  std::string messages;
  for (const Diagnostic& diagnostic : sink.diagnostics()) messages += diagnostic.message + "\n";
  if (!result) throw std::runtime_error(messages);
  return std::move(*result);
}

void check(const CompileRequest& request, const InterpretResult& expected, const std::string& what) {
  const Compiled result = compiled(request);
  tests::expect_equal(expected, tests::run(result.program), what + ", fused");
  const Program plain = lower(result.sharded, nullptr, {false});
  EXPECT_EQ(verify_program(plain), std::vector<std::string>{}) << what;
  tests::expect_equal(expected, tests::run(plain), what + ", not fused");
}

InterpretResult reference(CompileRequest request) {
  request.one_rank = true;
  request.mesh.clear();
  request.layout.clear();
  return tests::run(lower(compiled(request).sharded, nullptr, {false}));
}

/// `meshc ir` knows a pass by the list alone; the compiler runs them by its one function.
TEST(Specs, passes_run_in_the_order_of_their_list) {
  std::vector<std::string> listed, run;
  for (const auto& [name, meaning] : pass_names()) listed.push_back(name);
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh"};
  request.dump = [&](const std::string& pass, const std::string& text) {
    run.push_back(pass);
    EXPECT_FALSE(text.empty()) << pass;
  };
  compiled(request);
  EXPECT_EQ(run, listed);
}

TEST(Specs, gpt_under_its_layouts) {
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh"};
  request.set = {{"batch", "3"},    {"seq", "10"},   {"embed", "12"}, {"heads", "3"},
                 {"head_dim", "4"}, {"vocab", "11"}, {"layer", "2"}};
  const InterpretResult expected = reference(request);
  for (const auto& [data, model] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 1}, {1, 3}}) {
    request.mesh = {{"data", data}, {"model", model}};
    check(request, expected, "data " + std::to_string(data) + ", model " + std::to_string(model));
  }
}

/// In f64, where a wrong element cannot hide behind rounding.
TEST(Specs, gpt_under_layouts_that_its_file_does_not_show) {
  CompileRequest request;
  request.files = {SPECS "/gpt.mesh", LAYOUTS};
  request.precision = "f64";
  request.set = {{"batch", "3"},    {"seq", "7"},    {"embed", "10"}, {"heads", "2"},
                 {"head_dim", "5"}, {"vocab", "11"}, {"layer", "2"}};
  request.wanted = {"logits", "layer.h", "layer.attn.q", "layer.feed", "grad(layer.attn.wq)", "grad(wte)", "grad_norm"};
  const InterpretResult expected = reference(request);
  EXPECT_EQ(expected.wanted.size(), request.wanted.size());
  for (const char* layout : {"default", "moments", "shards", "lengthwise", "everything", "width"}) {
    request.layout = layout;
    check(request, expected, layout);
  }
}

TEST(Specs, results_are_not_written_over_what_is_still_read) {
  for (const char* model : {"Softmax", "Masked", "Norm", "Total", "Renamed", "Decay"})
    for (const bool wants : {false, true}) {
      CompileRequest request;
      request.files = {IN_PLACE};
      request.model = model;
      request.precision = "f64";
      if (wants) request.wanted = {"y", "loss", "grad(p1)"};
      check(request, reference(request), std::string(model) + (wants ? " with values fetched" : ""));
    }
}

TEST(Specs, mlp_under_its_six_layouts) {
  CompileRequest request;
  request.files = {SPECS "/mlp.mesh"};
  request.set = {{"batch", "6"}, {"pixel", "10"}, {"hidden", "9"}, {"class", "5"}};
  const InterpretResult expected = reference(request);
  for (const char* layout : {"whole", "data", "model", "both", "weights", "three"}) {
    request.layout = layout;
    check(request, expected, layout);
  }
}

}  // namespace
}  // namespace mesh
