// Messages over TCP past UCX: two ranks of two hosts in one process, over loopback.
#include "transport/tcp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace meshrt::test {

namespace {

using Clock = std::chrono::steady_clock;
using Message = std::shared_ptr<TcpMessage>;

constexpr auto patience = std::chrono::seconds(20);

class TcpTest : public testing::Test {
 protected:
  TcpTest() {
    for (const auto& tcp : ranks_) addresses_.push_back(tcp->address());
    for (const auto& tcp : ranks_) tcp->meet(addresses_, {0, 1});
  }
  Tcp& rank(int n) { return *ranks_[static_cast<size_t>(n)]; }

  // Until all have moved; false where they do not.
  bool move(const std::vector<Message>& messages, std::chrono::nanoseconds limit = patience) {
    const auto end = Clock::now() + limit;
    while (!std::ranges::all_of(messages, [](const Message& m) { return m->finished(); })) {
      if (Clock::now() > end) return false;
      for (const auto& tcp : ranks_) tcp->progress();
    }
    return true;
  }

  // Until rank `n` has lost the other one, whose end is gone: why.
  std::string why_lost(int n) {
    const auto end = Clock::now() + patience;
    while (rank(n).why_lost(1 - n).empty() && Clock::now() < end) rank(n).progress();
    return rank(n).why_lost(1 - n);
  }

  std::unique_ptr<Tcp> ranks_[2] = {std::make_unique<Tcp>("127.0.0.1", 0), std::make_unique<Tcp>("127.0.0.1", 1)};
  std::vector<std::string> addresses_;
};

std::vector<std::byte> drawn(int64_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

TEST_F(TcpTest, BringsLongMessagesBothWays) {
  std::vector<std::vector<std::byte>> sent[2], received[2];
  std::vector<Message> all;
  const std::vector<int64_t> lengths = {Tcp::least_bytes, 100'001, 1 << 20, 9 << 20};
  for (const int from : {0, 1}) {
    sent[from].reserve(lengths.size()), received[from].reserve(lengths.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      sent[from].push_back(drawn(lengths[i], static_cast<unsigned>(7 * i + static_cast<size_t>(from))));
      received[from].emplace_back(static_cast<size_t>(lengths[i]));
      all.push_back(rank(1 - from).receive(from, i, received[from][i].data(), lengths[i]));
      all.push_back(rank(from).send(1 - from, i, sent[from][i].data(), lengths[i]));
    }
  }
  ASSERT_TRUE(move(all)) << rank(0).why_lost(1) << rank(1).why_lost(0);
  for (const int from : {0, 1}) EXPECT_EQ(received[from], sent[from]);
}

// Collectives of several groups are under way at once, and their members may start them in different orders.
TEST_F(TcpTest, KeepsWhatComesBeforeItIsWanted) {
  const int64_t bytes = 300'000;
  std::vector<size_t> order(6);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(3);
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<std::vector<std::byte>> sent, received(order.size(), std::vector<std::byte>(bytes));
    for (size_t i = 0; i < order.size(); ++i)
      sent.push_back(drawn(bytes, static_cast<unsigned>(100 * turn) + unsigned(i)));
    std::vector<Message> sending, receiving;
    for (size_t i = 0; i < order.size(); ++i) sending.push_back(rank(0).send(1, i, sent[i].data(), bytes));
    std::ranges::shuffle(order, random);
    for (const size_t i : order) {
      receiving.push_back(rank(1).receive(0, i, received[i].data(), bytes));
      for (unsigned looks = random() % 50; looks > 0; --looks) rank(0).progress(), rank(1).progress();
    }
    sending.insert(sending.end(), receiving.begin(), receiving.end());
    ASSERT_TRUE(move(sending));
    EXPECT_EQ(received, sent) << "turn " << turn;
  }
}

// Of one tag in the order in which they were sent, as UCX does it: sequence numbers wrap around.
TEST_F(TcpTest, TakesThoseOfOneTagInTheirOrder) {
  const auto first = drawn(Tcp::least_bytes, 1), second = drawn(Tcp::least_bytes, 2),
             third = drawn(2 * Tcp::least_bytes, 3);
  std::vector<std::byte> a(first.size()), b(first.size()), c(third.size());
  const std::vector<Message> sent = {rank(0).send(1, 5, first.data(), Tcp::least_bytes),
                                     rank(0).send(1, 5, second.data(), Tcp::least_bytes),
                                     rank(0).send(1, 6, third.data(), 2 * Tcp::least_bytes)};
  ASSERT_TRUE(move({rank(1).receive(0, 6, c.data(), 2 * Tcp::least_bytes)}));
  ASSERT_TRUE(
      move({rank(1).receive(0, 5, a.data(), Tcp::least_bytes), rank(1).receive(0, 5, b.data(), Tcp::least_bytes)}));
  EXPECT_TRUE(a == first && b == second && c == third);
}

// The other end of such a call is told by its announcement; here nothing is written where it does not fit.
TEST_F(TcpTest, WritesNothingWhereTheLengthsDiffer) {
  const auto data = drawn(2 * Tcp::least_bytes, 1);
  std::vector<std::byte> room(static_cast<size_t>(Tcp::least_bytes), std::byte{7});
  const Message sent = rank(0).send(1, 5, data.data(), 2 * Tcp::least_bytes);
  EXPECT_FALSE(move({sent, rank(1).receive(0, 5, room.data(), Tcp::least_bytes)}, std::chrono::milliseconds(300)));
  EXPECT_EQ(room, std::vector<std::byte>(room.size(), std::byte{7}));
}

TEST_F(TcpTest, TellsThatTheOtherEndIsGone) {
  std::vector<std::byte> room(static_cast<size_t>(Tcp::least_bytes));
  const auto data = drawn(Tcp::least_bytes, 1);
  ASSERT_TRUE(
      move({rank(0).send(1, 1, data.data(), Tcp::least_bytes), rank(1).receive(0, 1, room.data(), Tcp::least_bytes)}));
  EXPECT_EQ(rank(1).why_lost(0), "");
  ranks_[0].reset();
  const Message never = rank(1).receive(0, 2, room.data(), Tcp::least_bytes);
  EXPECT_EQ(why_lost(1), "it was closed");
  EXPECT_FALSE(never->finished());
}

TEST_F(TcpTest, TellsThatNobodyListens) {
  ranks_[1].reset();
  const auto data = drawn(Tcp::least_bytes, 1);
  const Message never = rank(0).send(1, 1, data.data(), Tcp::least_bytes);
  EXPECT_EQ(why_lost(0), "Connection refused");
  EXPECT_FALSE(never->finished());
}

TEST_F(TcpTest, ForgetsStrangers) {
  sockaddr_storage where{};
  std::memcpy(&where, addresses_[1].data() + sizeof(uint64_t), addresses_[1].size() - sizeof(uint64_t));
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&where), sizeof(sockaddr_in)), 0);
  }
  // One says nothing, one half of a hello, and one that it is rank 0 without the secret, and then a message.
  const TcpHello hello{12345, 0};
  const TcpHeader header{1, Tcp::least_bytes};
  const auto wrong = drawn(Tcp::least_bytes, 2), right = drawn(Tcp::least_bytes, 3);
  ASSERT_EQ(send(strangers[1].get(), &hello, 5, MSG_NOSIGNAL), 5);
  ASSERT_EQ(send(strangers[2].get(), &hello, sizeof hello, MSG_NOSIGNAL), ssize_t(sizeof hello));
  ASSERT_EQ(send(strangers[2].get(), &header, sizeof header, MSG_NOSIGNAL), ssize_t(sizeof header));
  send(strangers[2].get(), wrong.data(), wrong.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  std::vector<std::byte> room(right.size());
  const Message wanted = rank(1).receive(0, 1, room.data(), Tcp::least_bytes);
  EXPECT_FALSE(move({wanted}, std::chrono::milliseconds(200)));
  ASSERT_TRUE(move({rank(0).send(1, 1, right.data(), Tcp::least_bytes), wanted}));
  EXPECT_EQ(room, right);
}

TEST(Tcp, HasNoAddressWhereItCannotListen) {
  for (const char* address : {"", "203.0.113.7", "host.invalid"}) {
    Tcp tcp(address, 0);
    EXPECT_EQ(tcp.address(), "") << address;
    tcp.meet({"", "12345678address"}, {0, 1});
    EXPECT_FALSE(tcp.reaches(1));
  }
}

TEST(Tcp, ReachesRanksOfOtherHostsThatHaveAnAddress) {
  Tcp tcp("127.0.0.1", 0);
  const std::string other = tcp.address();
  tcp.meet({tcp.address(), other, other, ""}, {0, 0, 1, 1});
  EXPECT_EQ((std::vector<bool>{tcp.reaches(0), tcp.reaches(1), tcp.reaches(2), tcp.reaches(3)}),
            (std::vector<bool>{false, false, true, false}));
}

TEST(Tcp, KeepsToTheRangeOfPorts) {
  setenv("UCX_TCP_PORT_RANGE", "42000-42200", 1);
  const Tcp one("127.0.0.1", 0), two("127.0.0.1", 1);
  unsetenv("UCX_TCP_PORT_RANGE");
  for (const Tcp* tcp : {&one, &two}) {
    sockaddr_in where{};
    std::memcpy(&where, tcp->address().data() + sizeof(uint64_t), sizeof where);
    EXPECT_GE(ntohs(where.sin_port), 42000);
    EXPECT_LE(ntohs(where.sin_port), 42200);
  }
}

}  // namespace

}  // namespace meshrt::test
