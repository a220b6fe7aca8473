// fuzz_socket KIND SEED FIRST COUNT SECONDS   mutants FIRST to FIRST + COUNT of what launchers say to each other, for
// at
//                                             most so many seconds
//
// KIND is door (an agent that comes in, over TCP on loopback), coordinator (two agents that speak for their ranks
// through a whole job) or orders (what a rank and an agent are told to do). A mutant is taken or refused; nobody comes
// in without the token. The address and undefined sanitizers are built in.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "launch/coordinator.h"
#include "launch/door.h"
#include "launch/packing.h"
#include "launch/remote_host.h"
#include "launch/welcome.h"
#include "mutate_bytes.h"
#include "rounds.h"
#include "watchdog.h"

namespace {

using mesh::fuzz::Random, mesh::fuzz::below;
using meshrt::Coordinator, meshrt::Descriptor, meshrt::Door, meshrt::HostJob, meshrt::Link, meshrt::MessageKind,
    meshrt::Packer, meshrt::Placement, meshrt::Token;

/// A message as it travels between hosts.
std::string framed(MessageKind kind, int32_t rank, int32_t value, std::string_view bytes = {}) {
  Packer head;
  head.number(static_cast<int32_t>(bytes.size()));
  head.number(static_cast<int32_t>(kind));
  head.number(rank);
  head.number(value);
  return head.bytes().append(bytes);
}

void mutate(std::string& bytes, Random& random) {
  const std::vector<std::string> others = {bytes};
  for (size_t left = below(random, 6); left > 0; --left) mesh::fuzz::change(bytes, random, others);
}

/// Sends what there is room for.
void send_bytes(const Descriptor& socket, std::string_view bytes) {
  (void)!send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// ---- coming in

/// Connects, and does not leave the port waiting when it closes.
Descriptor caller_of(const Door& door) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(door.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error(fmt::format("cannot connect: {}", std::strerror(errno)));
  const linger at_once{1, 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  return socket;
}

/// The number in the door's challenge.
std::string challenge_of(const Descriptor& socket) {
  char room[256];
  const ssize_t length = recv(socket.get(), room, sizeof room, 0);
  if (length < 24) throw std::runtime_error("the door gives no challenge");
  return {room + 24, static_cast<size_t>(length) - 24};
}

bool hung_up(const Descriptor& socket) {
  char room[256];
  const ssize_t length = recv(socket.get(), room, sizeof room, MSG_DONTWAIT);
  return length == 0 || (length < 0 && errno != EAGAIN);
}

bool come_in(Door& door, const Token& token, Random& random) {
  const Descriptor socket = caller_of(door);
  door.admit();
  const std::string mine = "0123456789abcdef";
  const uint64_t proof = token.proof(fmt::format("agent{}{}", challenge_of(socket), mine));
  const std::string proven(reinterpret_cast<const char*>(&proof), sizeof proof);
  Packer hello;
  hello.text(mine);
  hello.text(proven);
  hello.number(static_cast<int32_t>(below(random, 3)) - 1);
  hello.text("node1");
  std::string bytes = framed(MessageKind::proof, 0, 0, hello.bytes());
  if (below(random, 4) == 0) bytes.insert(0, framed(MessageKind::alive, 0, 0));
  mutate(bytes, random);
  const size_t cut = below(random, bytes.size() + 1);
  send_bytes(socket, std::string_view(bytes).substr(0, cut));
  size_t came = door.admit().size();
  send_bytes(socket, std::string_view(bytes).substr(cut));
  shutdown(socket.get(), SHUT_WR);
  constexpr int patience = 1000;  // times the door looks; it has all that will come
  for (int looks = 0; came == 0 && looks < patience && !hung_up(socket); ++looks) came = door.admit().size();
  if (came > 0 && bytes.find(proven) == std::string::npos) throw std::runtime_error("a stranger came in");
  if (came == 0 && !hung_up(socket)) throw std::runtime_error("a stranger is kept waiting");
  return came > 0;
}

// ---- a job

/// What the agent of a host tells while its ranks run and end.
std::string told_by(int host, Random& random) {
  std::string text;
  const int ranks[] = {2 * host, 2 * host + 1};
  for (const int rank : ranks) text += framed(MessageKind::entered, rank, 4000 + rank);
  for (const int rank : ranks) text += framed(MessageKind::joined, rank, 0);
  for (const int rank : ranks) text += framed(MessageKind::beat, rank, 0, "/nowhere/flight/rank-0000");
  for (int round = 0; round < 2; ++round)
    for (const int rank : ranks) text += framed(MessageKind::exchange, rank, 0, "contact");
  text += framed(MessageKind::alive, 0, 0);
  if (below(random, 8) == 0)
    text += framed(MessageKind::failed, ranks[0], static_cast<int32_t>(below(random, 8)) - 1, "it failed");
  for (const int rank : ranks) text += framed(MessageKind::finished, rank, 0);
  for (const int rank : ranks) text += framed(MessageKind::ended, rank, 0);
  return text;
}

bool run_job(Random& random) {
  const Placement placement{{0, 0, 1, 1}, {"node0", "node1"}, ""};
  Coordinator coordinator(placement, nullptr);
  std::vector<Descriptor> agents;
  const bool alike = below(random, 2) == 0;  // only one of two is a mutant
  for (int host = 0; host < 2; ++host) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no pair of sockets");
    agents.emplace_back(ends[1]);
    std::string bytes = told_by(host, random);
    if (host == 1 || !alike) mutate(bytes, random);
    bytes.resize(std::min<size_t>(bytes.size(), 100'000));  // fits into the socket
    send_bytes(agents.back(), bytes);
    shutdown(ends[1], SHUT_WR);
    HostJob job;
    job.placement = placement;
    job.host = host;
    coordinator.add(
        std::make_unique<meshrt::RemoteHost>(std::make_unique<Link>(Descriptor(ends[0])), job, coordinator));
  }
  return coordinator.run() == 0;
}

// ---- what others are told to do

bool read_orders(Random& random) {
  const Placement placement{{0, 1, 1}, {"node0", "node1"}, "eth0"};
  HostJob job;
  job.placement = placement;
  job.host = 1;
  job.command = {"./gpt", "run.yaml", "train.steps=10"};
  job.environment = {"A=1", "B=two"};
  job.folder = "/tmp";
  const bool to_rank = below(random, 2) == 0;
  std::string bytes = to_rank ? pack(meshrt::Welcome{1, 4, meshrt::Carrier::both, placement}) : pack(job);
  mutate(bytes, random);
  try {
    // What is read and written again means the same.
    const std::string again = to_rank ? pack(meshrt::unpack_welcome(bytes)) : pack(meshrt::unpack_host_job(bytes));
    const std::string third = to_rank ? pack(meshrt::unpack_welcome(again)) : pack(meshrt::unpack_host_job(again));
    if (again != third) throw std::runtime_error("an order changes on its way");
    return true;
  } catch (const meshrt::Failure&) {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const std::string kind = argv[1];
  const uint64_t seed = std::stoull(argv[2]);
  mesh::fuzz::watch({SIGABRT});  // the sanitizer has the others
  // What a launcher says of each mutant is of no use; what is found goes to the real stderr.
  const int errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  const Descriptor nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
  dup2(nothing.get(), STDERR_FILENO);
  mesh::fuzz::complain_to(errors);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the sanitizer takes a descriptor so
  __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<intptr_t>(errors)));
  const Token token = Token::from("a word of the job's own");
  Door door("127.0.0.1", 0, token);
  return mesh::fuzz::run_rounds(std::stoull(argv[3]), std::stoull(argv[4]), std::chrono::seconds(std::stoll(argv[5])),
                                [&](uint64_t number) {
                                  Random random(seed * 1'000'003 + number);
                                  if (kind == "door") return come_in(door, token, random);
                                  if (kind == "coordinator") return run_job(random);
                                  return read_orders(random);
                                });
}
