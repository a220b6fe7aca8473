// What stands between two ends of a connection: bytes that are repeated, moved, left out or changed on the way.
#include "launch/seal.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "launch/link.h"
#include "launch/secret.h"
#include "system/token.h"

namespace meshrt::test {

namespace {

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

}  // namespace

}  // namespace meshrt::test
