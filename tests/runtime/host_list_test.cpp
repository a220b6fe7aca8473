// Lists of hosts, where ranks are placed on them, and addresses as users write them.
#include "launch/host_list.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "launch/address.h"
#include "meshrt/failure.h"
#include "test_files.h"

namespace meshrt::test {

namespace {

using namespace std::chrono_literals;

TEST(HostList, ReadsBothNotations) {
  EXPECT_EQ(parse_hosts("ant:4,bee,[fe80::1]:2,fe80::2"),
            (std::vector<HostSlots>{{"ant", 4}, {"bee", 0}, {"fe80::1", 2}, {"fe80::2", 0}}));
  EXPECT_EQ(parse_host_file("# two\nant slots=4 max_slots=8\n\nbee:2 # more\nant slots=1\n", "hosts"),
            (std::vector<HostSlots>{{"ant", 5}, {"bee", 2}}));
}

TEST(HostList, RefusesWhatIsNoHost) {
  EXPECT_EQ(failure_of([] { parse_hosts("ant:0"); }), "--hosts: `0` is no number of ranks");
  EXPECT_EQ(failure_of([] { parse_hosts("ant:four"); }), "--hosts: `four` is no number of ranks");
  EXPECT_EQ(failure_of([] { parse_hosts("ant,-oProxyCommand=x"); }),
            "--hosts: `-oProxyCommand=x` is no host; write NAME or NAME:RANKS");
  EXPECT_EQ(failure_of([] { parse_host_file("ant\nbee 4\n", "my.hosts"); }),
            "my.hosts:2: what does `4` mean? A line is `NAME slots=4` or `NAME:4`");
  EXPECT_EQ(failure_of([] { parse_host_file("# nothing\n", "my.hosts"); }), "my.hosts names no host");
}

TEST(HostList, PlacesRanksHostByHost) {
  const std::vector<HostSlots> slots{{"ant", 2}, {"bee", 4}}, bare{{"ant", 0}, {"bee", 0}, {"cat", 0}};
  EXPECT_EQ(place_ranks(slots, {}).host_of_rank, (std::vector<int>{0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(place_ranks(slots, {.ranks = 3}).host_of_rank, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(place_ranks(slots, {.ranks = 2}).hosts, std::vector<std::string>{"ant"});
  EXPECT_EQ(place_ranks(bare, {.ranks = 4}).host_of_rank, (std::vector<int>{0, 0, 1, 2}));
  EXPECT_EQ(place_ranks(bare, {.hosts = 2, .per_host = 2}).host_of_rank, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(failure_of([&] { place_ranks(slots, {.ranks = 7}); }),
            "-n 7, but the 2 hosts have 6 slots: write NAME:RANKS, or --nproc-per-node");
  EXPECT_EQ(failure_of([&] { place_ranks(bare, {.hosts = 4}); }), "--nnodes 4, but there are only 3 hosts");
}

TEST(Addresses, AreReadOrRefused) {
  EXPECT_EQ(parse_address("ant:29500", "X").text(), "ant:29500");
  EXPECT_EQ(parse_address("[fe80::1]:7", "X").text(), "[fe80::1]:7");
  for (const char* wrong : {"ant", "ant:", "ant:0", "ant:70000", ":7", "ant:x7", "[fe80::1]7"})
    EXPECT_EQ(failure_of([&] { parse_address(wrong, "X"); }), std::string("X is `") + wrong + "`; give HOST:PORT");
}

TEST(Addresses, ATryThatFailsNamesThem) {
  const std::string said = failure_of([] { connect_to({{"127.0.0.1", 1}, {"nowhere.invalid", 2}}, 10ms); });
  EXPECT_TRUE(said.starts_with("cannot connect to 127.0.0.1:1 or nowhere.invalid:2 within 0.01 s: ")) << said;
}

}  // namespace

}  // namespace meshrt::test
