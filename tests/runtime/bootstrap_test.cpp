// How the launchers of several hosts find and believe each other: host lists, messages that are cut short or made up,
// tokens, strangers at the door.
#include "launch/bootstrap.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <list>
#include <random>
#include <stdexcept>
#include <thread>

#include "control/packing.h"
#include "control/welcome.h"
#include "launch/door.h"
#include "launch/host_list.h"
#include "launch/outbox.h"
#include "launch/restarts.h"
#include "launch/secret.h"
#include "meshrt/failure.h"
#include "system/token.h"

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

// What follows a number's eight bytes is hashed as if it stood behind them.
TEST(Token, HashesNumberedPieces) {
  const SipKey key{1, 2};
  for (const std::string& piece : {std::string(), std::string("abc"), std::string(29, 'x')})
    EXPECT_EQ(siphash(key, 0x0706050403020100, piece), siphash(key, std::string("\0\1\2\3\4\5\6\7", 8) + piece));
}

TEST(Token, ShortOnesAreRefused) {
  EXPECT_EQ(message_of([] { Token::chosen("swordfish", "MESHRT_TOKEN"); }),
            "MESHRT_TOKEN has 9 characters, and who sees it used could find it by trying; at least 16 are needed, as "
            "`openssl rand -hex 16` prints them");
  EXPECT_EQ(Token::chosen("sixteen letters!", "X").text(), Token::from("sixteen letters!").text());
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
  Door door({"127.0.0.1"}, 0, token);
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
  Door door({"127.0.0.1"}, 0, Token::draw());
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
  Door door({"127.0.0.1"}, 0, token);
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

/// Connects and says nothing, again and again.
class Flood {
 public:
  explicit Flood(const std::vector<Address>& address)
      : thread_([this, address] {
          std::list<Descriptor> sockets;
          for (; !stop_; ++calls_) {
            sockets.push_back(connect_to(address, 1s));
            if (sockets.size() > 300) sockets.pop_front();
          }
        }) {}
  ~Flood() {
    stop_ = true;
    thread_.join();
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  int calls() const { return calls_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> calls_{0};
  std::thread thread_;
};

// However many are silent at the door, also from the agent's own address.
TEST(Door, IsNotBlockedByACrowd) {
  const Token token = Token::draw();
  Door door({"127.0.0.1"}, 0, token);
  const std::vector<Address> address{{"127.0.0.1", door.port()}};
  testing::internal::CaptureStderr();
  {
    const Flood flood(address);
    const auto start = Link::Clock::now();
    while (flood.calls() < 200 && Link::Clock::now() - start < 10s) door.admit();
    EXPECT_GE(flood.calls(), 200);
    auto agent = std::async(std::launch::async, [&] { return enter(address, token, {0, "ant"}, 20s); });
    std::vector<Visitor> visitors;
    const auto came = Link::Clock::now();
    while (visitors.empty() && Link::Clock::now() - came < 20s)
      for (Visitor& visitor : door.admit()) visitors.push_back(std::move(visitor));
    EXPECT_EQ(visitors.size(), 1U);
    EXPECT_LT(Link::Clock::now() - came, 5s);
    EXPECT_NO_THROW(agent.get());
  }
  testing::internal::GetCapturedStderr();
}

// A job of one host is on no network: its door has a name that only this network namespace sees.
TEST(Door, HasANameOnOneHost) {
  const std::string name = door_name("a job of this test");
  const Token token = Token::draw();
  Door door({name}, 0, token);
  EXPECT_EQ(message_of([&] { Door({name}, 0, token); }), "another process has the name of this job's socket");
  auto agent = std::async(std::launch::async, [&] {
    return enter({parse_address(name, "X")}, token, {-1, "here"}, 1s);
  });
  EXPECT_EQ(serve(door, 1).size(), 1U);
  EXPECT_NO_THROW(agent.get());
}

TEST(Door, ListensWhereItIsTold) {
  Door door({"127.0.0.1", "127.0.0.2"}, 0, Token::draw());
  ASSERT_EQ(door.listeners().size(), 2U);
  EXPECT_EQ(port_of(door.listeners()[0].get()), port_of(door.listeners()[1].get()));
  EXPECT_NO_THROW(connect_to({{"127.0.0.2", door.port()}}, 1s));
  EXPECT_THROW(connect_to({{"127.0.0.3", door.port()}}, 50ms), Failure);
}

// At a port that all expect, another one would get their visits.
TEST(Door, DoesNotShareItsPort) {
  const Door other({"127.0.0.2"}, 0, Token::draw());
  const std::vector<std::string> hosts{"127.0.0.1", "127.0.0.2"};
  const std::string said = message_of([&] { Door(hosts, other.port(), Token::draw()); });
  EXPECT_TRUE(said.ends_with("Address already in use")) << said;
}

/// Two ends of a connection, and what stands between them: what one sends can be held, and given to the other changed.
class Wire {
 public:
  Wire() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no sockets");
    to_ = std::make_unique<Link>(Descriptor(ends[0]));
    tap_ = Descriptor(ends[1]);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no sockets");
    from_ = std::make_unique<Link>(Descriptor(ends[0]));
    other_tap_ = Descriptor(ends[1]);
    const Seals seals = seals_of(Token::draw(), "one", "other");
    from_->seal_sent(seals.to_agent);
    to_->expect_sealed(seals.to_agent);
  }
  /// The bytes of one message.
  std::string sent(const std::string& text) {
    from_->send(3, {MessageKind::exchange, 7, text});
    std::string bytes(4096, '\0');
    bytes.resize(recv(other_tap_.get(), bytes.data(), bytes.size(), 0));
    return bytes;
  }
  /// What the other end gets of these bytes, and "closed" where it ends the connection.
  std::vector<std::string> got(const std::string& bytes) {
    EXPECT_EQ(send(tap_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    to_->advance();
    std::vector<std::string> texts;
    Message message;
    int rank = 0;
    Received received = Received::nothing;
    while ((received = to_->receive(rank, message)) == Received::message) texts.push_back(message.bytes);
    if (received == Received::closed) texts.emplace_back("closed");
    return texts;
  }
  const std::string& fault() const { return to_->fault(); }

 private:
  std::unique_ptr<Link> from_, to_;
  Descriptor tap_, other_tap_;
};

using Texts = std::vector<std::string>;

TEST(Seal, LetsThroughWhatWasSent) {
  Wire wire;
  const std::string one = wire.sent("one"), empty = wire.sent(""), two = wire.sent("two");
  EXPECT_EQ(wire.got(one + empty.substr(0, 20)), (Texts{"one"}));
  EXPECT_EQ(wire.got(empty.substr(20) + two), (Texts{"", "two"}));
}

TEST(Seal, ARepeatedMessageEndsTheConnection) {
  Wire wire;
  const std::string one = wire.sent("one");
  EXPECT_EQ(wire.got(one), (Texts{"one"}));
  EXPECT_EQ(wire.got(one), (Texts{"closed"}));
  EXPECT_EQ(wire.fault(),
            "something was changed, put in, left out or repeated on the way: somebody else speaks on this network");
}

TEST(Seal, AnotherOrderEndsTheConnection) {
  Wire wire;
  const std::string one = wire.sent("one"), two = wire.sent("two");
  EXPECT_EQ(wire.got(two + one), (Texts{"closed"}));
}

TEST(Seal, AMessageThatIsLeftOutEndsTheConnection) {
  Wire wire;
  wire.sent("one");
  EXPECT_EQ(wire.got(wire.sent("two")), (Texts{"closed"}));
}

TEST(Seal, ABitThatIsChangedEndsTheConnection) {
  const size_t length = Wire().sent("a few bytes").size();
  for (size_t bit = 0; bit < 8 * length; ++bit) {
    Wire wire;
    std::string bytes = wire.sent("a few bytes");
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(wire.got(bytes), (Texts{"closed"})) << bit;
  }
}

TEST(Seal, AMessageThatIsSentBackEndsTheConnection) {
  const Seals seals = seals_of(Token::draw(), "one", "other");
  Seal there = seals.to_agent, back = seals.to_coordinator;
  EXPECT_NE(there.next("a piece"), back.next("a piece"));
  EXPECT_NE(Seal(seals.to_agent).next("a piece"), there.next("a piece"));  // its number is another
}

TEST(Messages, ThatAreTooLongAreRefusedWhereTheyAreSent) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor launcher(ends[0]), rank(ends[1]);
  const std::string said = message_of([&] {
    send_message(ends[0], {MessageKind::welcome, 0, std::string(most_bytes + 1, 'x')});
  });
  EXPECT_TRUE(said.starts_with("131073 bytes are too many for one message between a launcher and its ranks")) << said;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Link link((Descriptor(ends[0])));
  const Descriptor peer(ends[1]);
  const std::string long_one = message_of([&] {
    link.send(0, {MessageKind::start, 0, std::string(Link::longest_message + 1, 'x')});
  });
  EXPECT_NE(long_one.find("is too long: 16777216 bytes are the most"), std::string::npos) << long_one;
}

// A rank that is stopped takes nothing; its launcher goes on, and it gets everything, in order, when it goes on too.
TEST(Outbox, KeepsWhatARankDoesNotTake) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor launcher(ends[0]), rank(ends[1]);
  Outbox outbox;
  constexpr int count = 200;
  for (int i = 0; i < count; ++i) outbox.send(ends[0], {MessageKind::exchange, i, std::string(50'000, 'x')});
  EXPECT_FALSE(outbox.empty());
  EXPECT_FALSE(outbox.overflown());
  for (int i = 0; i < count; ++i) {
    Message message;
    outbox.flush(ends[0]);
    ASSERT_EQ(receive_message(ends[1], message), Received::message) << i;
    EXPECT_EQ(message.value, i);
  }
  EXPECT_TRUE(outbox.empty());
  while (!outbox.overflown()) outbox.send(ends[0], {MessageKind::exchange, 0, std::string(most_bytes, 'x')});
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
    for (const char* name : {"OMPI_COMM_WORLD_SIZE",
                             "PMIX_NAMESPACE",
                             "PMIX_RANK",
                             "PMI_SIZE",
                             "PMI_RANK",
                             "PMI_FD",
                             "WORLD_SIZE",
                             "RANK",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "TORCHELASTIC_RUN_ID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_PROCID",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID",
                             "SLURM_STEP_NODELIST",
                             "SLURM_STEP_NUM_NODES",
                             "LOCAL_WORLD_SIZE",
                             "MESHRT_TOKEN",
                             "MESHRT_TOKEN_FILE"})
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

const Pairs slurm_two = {{"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_JOB_ID", "4294967295"},  // of a federation
                         {"SLURM_STEP_ID", "1"},
                         {"SLURM_STEP_NODELIST", "rack[1-2]n[3-4]"}};

TEST(Bootstrap, NumbersOfSlurmMayBeLarge) {
  const Variables set(slurm_two);
  const auto found = find_bootstrap();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->given_address()->text(), "rack1n3:21066");
}

TEST(Bootstrap, TheFirstHostOfAListIsFound) {
  EXPECT_EQ(first_host("a"), "a");
  EXPECT_EQ(first_host("n[03-05,9],x"), "n03");
  EXPECT_EQ(first_host("rack[1-2]n[3-4],x"), "rack1n3");
  EXPECT_EQ(first_host("n[1-2].cluster"), "n1.cluster");
  EXPECT_EQ(first_host("n[1-2"), "");
}

bool is_of_one_host(const Pairs& variables) {
  const Variables set(variables);
  return find_bootstrap()->one_host();
}

TEST(Bootstrap, JobsOfOneHostAreToldApart) {
  EXPECT_FALSE(is_of_one_host(slurm_two));
  EXPECT_TRUE(is_of_one_host(slurm_two + Pairs{{"SLURM_STEP_NUM_NODES", "1"}}));
  EXPECT_TRUE(is_of_one_host(slurm_two + Pairs{{"SLURM_STEP_NODELIST", "a"}}));
  EXPECT_FALSE(is_of_one_host(torchrun_two));
  EXPECT_TRUE(is_of_one_host(torchrun_two + Pairs{{"LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_TRUE(is_of_one_host(torchrun_two + Pairs{{"MASTER_ADDR", "localhost"}}));
}

/// A home without MUNGE, and what is said of its secrets.
class Secrets : public testing::Test {
 protected:
  Secrets() {
    char name[] = "/tmp/meshrt-test-home-XXXXXX";
    home_ = mkdtemp(name);
    setenv("HOME", home_.c_str(), 1);
    setenv("MESHRT_MUNGE_SOCKET", (home_ + "/none").c_str(), 1);
  }
  ~Secrets() override {
    std::filesystem::remove_all(home_);
    setenv("HOME", before_.c_str(), 1);
    unsetenv("MESHRT_MUNGE_SOCKET");
  }
  std::string write(const char* name, const char* text, mode_t mode) const {
    const std::string path = home_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  std::string home_, before_ = std::getenv("HOME") ? std::getenv("HOME") : "/";
};

TEST_F(Secrets, AJobOfSeveralHostsWithoutOneIsRefused) {
  for (const Pairs& launcher : {slurm_two, torchrun_two}) {
    const Variables set(launcher);
    const auto found = find_bootstrap();
    const std::string said = message_of([&] { found->given_secret(); });
    EXPECT_TRUE(said.starts_with("the hosts of this job share no secret")) << said;
    EXPECT_NE(said.find("openssl rand -hex 16 >~/.meshrt-token"), std::string::npos) << said;
  }
  const Variables set(slurm_two + Pairs{{"MESHRT_TOKEN", "none"}});
  const auto found = find_bootstrap();
  EXPECT_EQ(found->given_secret()->text(), Token::from(found->job()).text());
}

TEST_F(Secrets, OneHostNeedsNone) {
  const Variables set(slurm_two + Pairs{{"SLURM_STEP_NUM_NODES", "1"}});
  const auto found = find_bootstrap();
  EXPECT_NO_THROW(found->given_secret());
  EXPECT_TRUE(found->meet({{}, Token(), 0}).coordinator.at(0).is_local_name());
}

TEST_F(Secrets, FilesAreOfTheirOwnerAlone) {
  const Variables set({});
  const std::string path = write(".meshrt-token", "0123456789abcdef0123456789abcdef\n", 0644);
  EXPECT_EQ(message_of([] { shared_secret("job"); }), "the token file " + path +
                                                          " has to be a file of this user that nobody else can read: "
                                                          "chmod 600 " +
                                                          path);
  chmod(path.c_str(), 0600);
  EXPECT_EQ(shared_secret("job").text(), "0123456789abcdef0123456789abcdef");
  const std::string other = write("other", "fedcba9876543210fedcba9876543210", 0600);
  setenv("MESHRT_TOKEN_FILE", other.c_str(), 1);
  EXPECT_EQ(shared_secret("job").text(), "fedcba9876543210fedcba9876543210");
  const std::string brief = write("brief", "secret\n", 0600);
  setenv("MESHRT_TOKEN_FILE", brief.c_str(), 1);
  EXPECT_TRUE(message_of([] { shared_secret("job"); }).starts_with("the token in " + brief + " has 6 characters"));
  setenv("MESHRT_TOKEN_FILE", "/no/such/file", 1);
  EXPECT_EQ(message_of([] { shared_secret("job"); }), "MESHRT_TOKEN_FILE: there is no file /no/such/file");
  setenv("MESHRT_TOKEN", "a word of this job", 1);
  EXPECT_EQ(shared_secret("job").text(), Token::from("a word of this job").text());
}

}  // namespace

}  // namespace meshrt::test
