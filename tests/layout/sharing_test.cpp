// Readers of one value share its movements, and what a spec may write in two ways is placed in one.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "codegen/compile.h"
#include "codegen/layout/predict.h"

namespace mesh {
namespace {

using Sent = std::tuple<std::string, CollectiveKind, int64_t, int64_t>;  // phase, kind, bytes, executions

std::vector<Sent> collectives_sent(const std::string& model, const std::string& layout) {
  CompileRequest request;
  request.files = {SHARING};
  request.model = model;
  request.layout = layout;
  SourceMap sources;
  DiagnosticSink sink;
  const std::optional<Compiled> compiled = compile(request, sources, sink);
  EXPECT_TRUE(compiled) << model;
  std::vector<Sent> sent;
  if (compiled)
    for (const PlannedCollective& one : predict(compiled->sharded()).collectives)
      sent.emplace_back(one.phase, one.kind, one.bytes, one.count);
  std::ranges::sort(sent);
  return sent;
}

/// Each rank adds up a part of the sum and reads its neighbours there; all need its gradient. The loss is a number.
TEST(Sharing, ANeighbourIsReadOfTheSumThatOthersRead) {
  const int64_t others = 8 * 64 * 32 * 4 * 3 / 4;  // what four ranks scatter, or gather, of `h`
  EXPECT_EQ(collectives_sent("Neighbour", "words"),
            (std::vector<Sent>{{"backward", CollectiveKind::all_gather, others, 1},
                               {"forward", CollectiveKind::all_reduce, 6, 1},
                               {"forward", CollectiveKind::reduce_scatter, others, 1},
                               {"forward", CollectiveKind::slice, 0, 1}}));
}

TEST(Sharing, ARenameIsPlacedAlikeBeforeAProductAndAfterIt) {
  const std::vector<Sent> sent = collectives_sent("RenamesLast", "lengthwise");
  EXPECT_FALSE(sent.empty());
  EXPECT_EQ(collectives_sent("RenamesFirst", "lengthwise"), sent);
}

}  // namespace
}  // namespace mesh
