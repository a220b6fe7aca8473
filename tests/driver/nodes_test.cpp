#include "driver/nodes.h"

#include <gtest/gtest.h>

namespace meshrt {
namespace {

ProgramInfo info_of(std::vector<MeshAxis> mesh) {
  ProgramInfo info;
  info.mesh = std::move(mesh);
  return info;
}

Placement placed(std::vector<int> host_of_rank) { return {std::move(host_of_rank), {"ant", "bee"}, "eth0"}; }

TEST(Nodes, AnAxisThatLeavesItsHostIsTold) {
  const ProgramInfo inner = info_of({{"data", 2, 2}, {"model", 2, 1, true}});
  EXPECT_EQ(split_node(inner, placed({0, 0, 1, 1})), "");
  EXPECT_EQ(split_node(inner, Placement::together(4, "ant")), "");
  EXPECT_EQ(
      split_node(inner, placed({0, 0, 0, 1})),
      "mesh axis `model` is `within node`, but its ranks 2 and 3 run on ant and bee: start 2 ranks on each host, or a "
      "multiple, or leave `within node` out of the mesh");
  const ProgramInfo outer = info_of({{"data", 2, 2, true}, {"model", 2, 1}});
  EXPECT_EQ(
      split_node(outer, placed({0, 0, 1, 1})),
      "mesh axis `data` is `within node`, but its ranks 0 and 2 run on ant and bee: start 4 ranks on each host, or a "
      "multiple, or leave `within node` out of the mesh");
  EXPECT_EQ(split_node(info_of({{"data", 4, 1}}), placed({0, 0, 0, 1})), "");
}

TEST(Nodes, TheTableHasALineForEachRank) {
  EXPECT_EQ(placement_table(info_of({{"data", 2, 2}, {"model", 2, 1}}), placed({0, 0, 1, 1})),
            "rank  host  mesh\n"
            "   0  ant   data 0, model 0\n"
            "   1  ant   data 0, model 1\n"
            "   2  bee   data 1, model 0\n"
            "   3  bee   data 1, model 1\n"
            "memory within a host, UCX between 2 hosts over eth0\n");
}

TEST(Nodes, AndALineForEachHostWhenThereAreMany) {
  std::vector<int> hosts(128);
  for (int rank = 64; rank < 128; ++rank) hosts[rank] = 1;
  EXPECT_EQ(placement_table(info_of({{"data", 8, 16}, {"model", 16, 1}}), placed(hosts)),
            "host  ranks  mesh\n"
            "ant      64  data 0-3, model 0-15\n"
            "bee      64  data 4-7, model 0-15\n"
            "memory within a host, UCX between 2 hosts over eth0\n");
}

}  // namespace
}  // namespace meshrt
