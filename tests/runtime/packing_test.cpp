// What a launcher tells an agent or a rank in one message: bytes that are cut or made up, messages that are too long, a
// rank that takes nothing.
#include "control/packing.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>
#include <string>

#include "control/welcome.h"
#include "launch/host.h"
#include "launch/link.h"
#include "launch/outbox.h"
#include "meshrt/failure.h"
#include "system/descriptor.h"
#include "test_files.h"
#include "transport/ucx_call.h"

namespace meshrt::test {

namespace {

HostJob some_job() {
  HostJob job;
  job.placement = {{0, 0, 1}, {"ant", "bee"}, "eth0", "10.0.0.7"};
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

TEST(Messages, ThatAreTooLongAreRefusedWhereTheyAreSent) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor launcher(ends[0]), rank(ends[1]);
  const std::string said = failure_of([&] {
    send_message(ends[0], {MessageKind::welcome, 0, std::string(most_bytes + 1, 'x')});
  });
  EXPECT_TRUE(said.starts_with("131073 bytes are too many for one message between a launcher and its ranks")) << said;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Link link((Descriptor(ends[0])));
  const Descriptor peer(ends[1]);
  const std::string long_one = failure_of([&] {
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

// They are counted before memory is allocated, so no call may take more; a rank of a large job has 32 KiB a member at
// the most.
TEST(Rooms, OfEveryCallOverUcxAreWhatIsPlanned) {
  constexpr int64_t two_rooms = int64_t{32} << 20, least = int64_t{32} << 10;
  for (const int members : {2, 3, 16, 17, 33, 100, 1000, 1025, 4096, 65536}) {
    const int64_t most = UcxCall::most_rooms(members);
    EXPECT_LE(most, std::max(two_rooms, members * least)) << members;
    EXPECT_LE(2 * members * UcxCall::round_bytes(members), most) << members;
    for (const bool packs : {false, true}) {
      const int64_t round = UcxCall::round_bytes_of_sums(members, packs);
      EXPECT_GE(round, 4096);
      EXPECT_LE(UcxCall::rounds_of_sums(members) * UcxCall::rooms_of_sums(packs) * members * round, most)
          << members << (packs ? ", packed" : "");
    }
  }
}

}  // namespace

}  // namespace meshrt::test
