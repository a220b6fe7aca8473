// How the launchers of several hosts find and believe each other: host lists, messages that are cut short or made up,
// tokens, strangers at the door.
#include "launch/bootstrap.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <random>
#include <thread>

#include "launch/door.h"
#include "launch/host_list.h"
#include "launch/packing.h"
#include "launch/restarts.h"
#include "launch/token.h"
#include "launch/welcome.h"
#include "meshrt/failure.h"

namespace meshrt::test {

namespace {

using namespace std::chrono_literals;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no failure";
}

TEST(HostList, ReadsBothNotations) {
  EXPECT_EQ(parse_hosts("ant:4,bee,[fe80::1]:2,fe80::2"),
            (std::vector<HostSlots>{{"ant", 4}, {"bee", 0}, {"fe80::1", 2}, {"fe80::2", 0}}));
  EXPECT_EQ(parse_host_file("# two\nant slots=4 max_slots=8\n\nbee:2 # more\nant slots=1\n", "hosts"),
            (std::vector<HostSlots>{{"ant", 5}, {"bee", 2}}));
}

TEST(HostList, RefusesWhatIsNoHost) {
  EXPECT_EQ(message_of([] { parse_hosts("ant:0"); }), "--hosts: `0` is no number of ranks");
  EXPECT_EQ(message_of([] { parse_hosts("ant:four"); }), "--hosts: `four` is no number of ranks");
  EXPECT_EQ(message_of([] { parse_hosts("ant,-oProxyCommand=x"); }),
            "--hosts: `-oProxyCommand=x` is no host; write NAME or NAME:RANKS");
  EXPECT_EQ(message_of([] { parse_host_file("ant\nbee 4\n", "my.hosts"); }),
            "my.hosts:2: what does `4` mean? A line is `NAME slots=4` or `NAME:4`");
  EXPECT_EQ(message_of([] { parse_host_file("# nothing\n", "my.hosts"); }), "my.hosts names no host");
}

TEST(HostList, PlacesRanksHostByHost) {
  const std::vector<HostSlots> slots{{"ant", 2}, {"bee", 4}}, bare{{"ant", 0}, {"bee", 0}, {"cat", 0}};
  EXPECT_EQ(place_ranks(slots, {}).host_of_rank, (std::vector<int>{0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(place_ranks(slots, {.ranks = 3}).host_of_rank, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(place_ranks(slots, {.ranks = 2}).hosts, std::vector<std::string>{"ant"});
  EXPECT_EQ(place_ranks(bare, {.ranks = 4}).host_of_rank, (std::vector<int>{0, 0, 1, 2}));
  EXPECT_EQ(place_ranks(bare, {.hosts = 2, .per_host = 2}).host_of_rank, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(message_of([&] { place_ranks(slots, {.ranks = 7}); }),
            "-n 7, but the 2 hosts have 6 slots: write NAME:RANKS, or --nproc-per-node");
  EXPECT_EQ(message_of([&] { place_ranks(bare, {.hosts = 4}); }), "--nnodes 4, but there are only 3 hosts");
}

HostJob some_job() {
  HostJob job;
  job.placement = {{0, 0, 1}, {"ant", "bee"}, "eth0"};
  job.host = 1;
  job.carrier = Carrier::both;
  job.command = {"gpt", "run.yaml"};
  job.environment = {"A=b"};
  job.folder = "/tmp";
  return job;
}

TEST(Packing, GivesBackWhatWentIn) {
  const HostJob job = unpack_host_job(pack(some_job()));
  EXPECT_EQ(job.placement.host_of_rank, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(job.command, (std::vector<std::string>{"gpt", "run.yaml"}));
  EXPECT_EQ(job.folder, "/tmp");
  EXPECT_EQ(job.host, 1);
}

TEST(Packing, BytesCutOrMadeUpAreRefused) {
  const std::string whole = pack(some_job());
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(unpack_host_job(whole.substr(0, length)), Failure) << length;
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      const HostJob job = unpack_host_job(bytes);
      for (const int host : job.placement.host_of_rank) ASSERT_LT(host, static_cast<int>(job.placement.hosts.size()));
    } catch (const Failure&) {}
  }
}

TEST(Token, HashesAsItsAuthorsSay) {
  std::string bytes;
  for (char c = 0; c < 15; ++c) bytes += c;
  EXPECT_EQ(siphash({0x0706050403020100, 0x0f0e0d0c0b0a0908}, bytes), 0xa129ca6149be45e5);
}

TEST(Token, ComesBackFromItsText) {
  const Token token = Token::draw();
  EXPECT_EQ(Token::from(token.text()).text(), token.text());
  EXPECT_NE(Token::draw().text(), token.text());
  EXPECT_EQ(Token::from("our job").text(), Token::from("our job").text());
  EXPECT_NE(Token::from("our job").text(), Token::from("our job!").text());
}

TEST(Addresses, AreReadOrRefused) {
  EXPECT_EQ(parse_address("ant:29500", "X").text(), "ant:29500");
  EXPECT_EQ(parse_address("[fe80::1]:7", "X").text(), "[fe80::1]:7");
  for (const char* wrong : {"ant", "ant:", "ant:0", "ant:70000", ":7", "ant:x7", "[fe80::1]7"})
    EXPECT_EQ(message_of([&] { parse_address(wrong, "X"); }), std::string("X is `") + wrong + "`; give HOST:PORT");
}

TEST(Addresses, ATryThatFailsNamesThem) {
  const std::string said = message_of([] { connect_to({{"127.0.0.1", 1}, {"nowhere.invalid", 2}}, 10ms); });
  EXPECT_TRUE(said.starts_with("cannot connect to 127.0.0.1:1 or nowhere.invalid:2 within 0.01 s: ")) << said;
}

// Serves the door until `count` have come in, or a second and a half has passed.
std::vector<Visitor> serve(Door& door, size_t count) {
  std::vector<Visitor> visitors;
  const auto end = Link::Clock::now() + 1500ms;
  while (visitors.size() < count && Link::Clock::now() < end) {
    for (Visitor& visitor : door.admit()) visitors.push_back(std::move(visitor));
    std::this_thread::sleep_for(1ms);
  }
  return visitors;
}

TEST(Door, LetsInWhoHasTheToken) {
  const Token token = Token::draw();
  Door door("127.0.0.1", 0, token);
  const std::vector<Address> address{{"127.0.0.1", door.port()}};
  auto agent = std::async(std::launch::async, [&] { return enter(address, token, {3, "bee"}, 1s); });
  const std::vector<Visitor> visitors = serve(door, 1);
  ASSERT_EQ(visitors.size(), 1U);
  EXPECT_EQ(visitors[0].hello.host, 3);
  EXPECT_EQ(visitors[0].hello.name, "bee");
  const auto link = agent.get();
  link->send(2, {MessageKind::entered, 77, "hello"});
  Message message;
  int rank = 0;
  for (int i = 0; i < 1000 && visitors[0].link->receive(rank, message) != Received::message; ++i) {
    visitors[0].link->advance();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(message.bytes, "hello");
}

TEST(Door, TurnsStrangersAway) {
  Door door("127.0.0.1", 0, Token::draw());
  const std::vector<Address> address{{"127.0.0.1", door.port()}};
  testing::internal::CaptureStderr();
  auto agent = std::async(std::launch::async, [&] {
    return message_of([&] { enter(address, Token::draw(), {0, "thief"}, 2s); });
  });
  EXPECT_TRUE(serve(door, 1).empty());
  const std::string said = agent.get();
  EXPECT_NE(said.find("does not take this host in: it has another token"), std::string::npos) << said;
  EXPECT_NE(testing::internal::GetCapturedStderr().find("was turned away"), std::string::npos);
}

// Strangers that send noise, huge lengths, or nothing do not stop an agent from coming in.
TEST(Door, IsNotBlockedByNoise) {
  const Token token = Token::draw();
  Door door("127.0.0.1", 0, token);
  const std::vector<Address> address{{"127.0.0.1", door.port()}};
  testing::internal::CaptureStderr();
  std::mt19937 random(11);
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(connect_to(address, 1s));
    std::string noise(random() % 3000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    send(strangers.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL);
    door.admit();
  }
  auto agent = std::async(std::launch::async, [&] { return enter(address, token, {0, "ant"}, 1s); });
  EXPECT_EQ(serve(door, 1).size(), 1U);
  EXPECT_NO_THROW(agent.get());
  testing::internal::GetCapturedStderr();
}

TEST(Restarts, OnlyAfterAFailedRun) {
  testing::internal::CaptureStderr();
  int runs = 0;
  const auto ending_with = [&](std::vector<int> codes, bool asked_to_end = false) {
    runs = 0;
    return with_restarts(2, [&] { return Attempt{codes[runs++], asked_to_end}; });
  };
  EXPECT_EQ(ending_with({3, 0}), 0);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(ending_with({3, 3, 3}), 3);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(ending_with({3}, true), 3);
  EXPECT_EQ(runs, 1);
  for (const int code : {0, 1, 2, 70, 75, 130}) {
    EXPECT_EQ(ending_with({code}), code);
    EXPECT_EQ(runs, 1);
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("meshrun: restart 2 of at most 2\n"), std::string::npos);
}

/// The variables of launchers, as a test sets them; before and after it there are none.
class Variables {
 public:
  explicit Variables(const std::vector<std::pair<const char*, const char*>>& given) {
    clear();
    for (const auto& [name, value] : given) setenv(name, value, 1);
  }
  ~Variables() { clear(); }

 private:
  static void clear() {
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK", "PMI_FD", "WORLD_SIZE", "RANK",
          "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_JOB_ID",
          "SLURM_STEP_ID", "SLURM_STEP_NODELIST"})
      unsetenv(name);
  }
};

using Pairs = std::vector<std::pair<const char*, const char*>>;

Pairs operator+(Pairs a, const Pairs& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string job_found(const Pairs& variables) {
  const Variables set(variables);
  const auto found = find_bootstrap();
  return found ? found->job() : "none";
}

const Pairs slurm_one = {{"SLURM_STEP_NUM_TASKS", "1"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_JOB_ID", "7"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NODELIST", "a"}};
const Pairs torchrun_two = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};

TEST(Bootstrap, AJobOfOneIsPassedOver) {
  EXPECT_EQ(job_found({}), "none");
  EXPECT_EQ(job_found(slurm_one), "none");
  EXPECT_EQ(job_found(slurm_one + torchrun_two), "torchrun---a-29500");
  EXPECT_EQ(job_found(slurm_one + Pairs{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "x"}, {"PMIX_RANK", "1"}}),
            "pmix-x");
  EXPECT_EQ(job_found(slurm_one + Pairs{{"PMIX_NAMESPACE", "slurm"}, {"PMIX_RANK", "0"}}), "none");
  EXPECT_EQ(job_found(Pairs{{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}), "none");
}

TEST(Bootstrap, TorchrunStartedByAnotherLauncherComesFirst) {
  const Pairs step = {{"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_NAMESPACE", "slurm"}, {"PMIX_RANK", "1"}};
  EXPECT_EQ(job_found(step + torchrun_two), "pmix-slurm");
  EXPECT_EQ(job_found(step + torchrun_two + Pairs{{"TORCHELASTIC_RUN_ID", "r"}}), "torchrun-r--a-29500");
}

}  // namespace

}  // namespace meshrt::test
