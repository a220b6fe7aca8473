// The door at which agents come in: tokens, strangers, noise and crowds.
#include "launch/door.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <future>
#include <list>
#include <random>
#include <thread>

#include "launch/bootstrap.h"
#include "launch/host_list.h"
#include "meshrt/failure.h"
#include "system/token.h"
#include "test_files.h"

namespace meshrt::test {

namespace {

using namespace std::chrono_literals;

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
    return failure_of([&] { enter(address, Token::draw(), {0, "thief"}, 2s); });
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
          while (!stop_) try {
              sockets.push_back(connect_to(address, 1s));
              if (sockets.size() > 300) sockets.pop_front();
              ++calls_;
            } catch (const Failure&) {
              // Where other work has the cores the queue in front of the door may be full for so long.
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
  EXPECT_EQ(failure_of([&] { Door({name}, 0, token); }), "another process has the name of this job's socket");
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
  const std::string said = failure_of([&] { Door(hosts, other.port(), Token::draw()); });
  EXPECT_TRUE(said.ends_with("Address already in use")) << said;
}

}  // namespace

}  // namespace meshrt::test
