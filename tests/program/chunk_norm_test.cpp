// Statistics of chunks of a batch by micro-batches and in pipelines, with running ones: equal to one rank.
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "tests/program/as_one_rank.h"

namespace mesh {
namespace {

CompileRequest chunks(const std::string& layout, std::map<std::string, int64_t> mesh = {}) {
  CompileRequest request;
  request.files = {CHUNK_NORM};
  request.precision = "f64";
  request.layout = layout;
  request.mesh = std::move(mesh);
  request.wanted = {"g",        "layer.norm.centre", "layer.norm.variance", "grad(layer.norm.gain)", "grad(first.bias)",
                    "grad_norm"};
  return request;
}

TEST(ChunkNorm, by_micro_batches) {
  for (const char* layout : {"parts", "layers", "some"}) tests::expect_as_one_rank(chunks(layout), layout);
}

TEST(ChunkNorm, in_pipelines) {
  for (const char* layout : {"turns", "each", "rounds", "apart", "pairs"})
    tests::expect_as_one_rank(chunks(layout), layout);
  for (const int64_t stages : {1, 3, 4})
    tests::expect_as_one_rank(chunks("turns", {{"pipe", stages}}), "turns of " + std::to_string(stages));
}

TEST(ChunkNorm, in_pipelines_beside_other_axes) {
  for (const char* layout : {"split", "whole"}) tests::expect_as_one_rank(chunks(layout), layout);
}

}  // namespace
}  // namespace mesh
