#include "driver/nodes.h"

#include <gtest/gtest.h>

namespace meshrt {
namespace {

ProgramInfo info_of(std::vector<MeshAxis> mesh) {
  ProgramInfo info;
  info.mesh = std::move(mesh);
  return info;
}

TEST(Nodes, AnAxisMayNotLeaveItsHost) {
  const ProgramInfo inner = info_of({{"data", 2, 2}, {"model", 2, 1, true}});
  const uint64_t pairs[] = {7, 7, 9, 9}, one[] = {7, 7, 7, 7}, apart[] = {7, 7, 7, 9};
  EXPECT_EQ(split_node(inner, pairs), "");
  EXPECT_EQ(split_node(inner, one), "");
  EXPECT_EQ(split_node(inner, apart),
            "mesh axis `model` is `within node`, but ranks 2 and 3 of it run on different hosts");
  const ProgramInfo outer = info_of({{"data", 2, 2, true}, {"model", 2, 1}});
  EXPECT_EQ(split_node(outer, pairs),
            "mesh axis `data` is `within node`, but ranks 0 and 2 of it run on different hosts");
  EXPECT_EQ(split_node(info_of({{"data", 4, 1}}), apart), "");
}

}  // namespace
}  // namespace meshrt
