// fuzz_socket KIND SEED FIRST COUNT SECONDS: mutants FIRST to FIRST + COUNT of what launchers say to each other, for at
// most so many seconds.
//
// KIND is door (an agent that comes in, over TCP on loopback), coordinator (two agents that speak for their ranks
// through a whole job, in sealed messages that are mutants themselves), link (somebody between the two changes what is
// sealed) or orders (what a rank and an agent are told to do). A mutant is taken or refused; nobody comes in without
// the token. The address and undefined sanitizers are built in.
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

#include "control/packing.h"
#include "control/welcome.h"
#include "launch/coordinator.h"
#include "launch/door.h"
#include "launch/remote_host.h"
#include "mutate_bytes.h"
#include "rounds.h"
#include "watchdog.h"

namespace {

using mesh::fuzz::Random, mesh::fuzz::below;
using meshrt::Coordinator, meshrt::Descriptor, meshrt::Door, meshrt::HostJob, meshrt::Link, meshrt::MessageKind,
    meshrt::Packer, meshrt::Placement, meshrt::Seal, meshrt::Seals, meshrt::Token;

struct Sent {
  MessageKind kind;
  int32_t rank, value;
  std::string bytes;
};

/// The head of a message as it travels between hosts.
std::string head_of(const Sent& message) {
  Packer head;
  head.number(static_cast<int32_t>(message.bytes.size()));
  head.number(static_cast<int32_t>(message.kind));
  head.number(message.rank);
  head.number(message.value);
  return head.bytes();
}

std::string framed(const Sent& message) { return head_of(message) + message.bytes; }

/// The same between those who have shown who they are.
std::string sealed(const Sent& message, Seal& seal) {
  const std::string head = head_of(message);
  std::string bytes = head + seal.next(head);
  if (!message.bytes.empty()) bytes += message.bytes + seal.next(message.bytes);
  return bytes;
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

/// Whether somebody is at the door whom it has neither let in nor turned away.
bool has_callers(const Door& door) {
  std::vector<pollfd> watched;
  door.watch(watched);
  return watched.size() > 1;  // beside its listener
}

bool come_in(Door& door, const Token& token, Random& random) {
  const Descriptor socket = caller_of(door);
  door.admit();
  Packer words;
  words.text("0123456789abcdef");  // a number of its own
  words.text("");                  // no credential
  words.number(static_cast<int32_t>(below(random, 3)) - 1);
  words.text("node1");
  const uint64_t proof = token.proof("agent" + challenge_of(socket) + words.bytes());
  Packer hello;
  hello.text(words.bytes());
  hello.text({reinterpret_cast<const char*>(&proof), sizeof proof});
  std::string bytes = framed({MessageKind::proof, 0, 0, hello.bytes()});
  if (below(random, 4) == 0) bytes.insert(0, framed({MessageKind::alive, 0, 0, ""}));
  mutate(bytes, random);
  const size_t cut = below(random, bytes.size() + 1);
  send_bytes(socket, std::string_view(bytes).substr(0, cut));
  size_t came = door.admit().size();
  send_bytes(socket, std::string_view(bytes).substr(cut));
  shutdown(socket.get(), SHUT_WR);
  constexpr int patience = 1000;  // times the door looks; it has all that will come
  for (int looks = 0; looks < patience && has_callers(door); ++looks) came += door.admit().size();
  if (came > 0 && bytes.find(hello.bytes()) == std::string::npos) throw std::runtime_error("a stranger came in");
  if (has_callers(door)) throw std::runtime_error("a stranger is kept waiting");
  return came > 0;
}

// ---- a job

/// What the agent of a host tells while its ranks run and end.
std::vector<Sent> told_by(int host, Random& random) {
  std::vector<Sent> told;
  const int ranks[] = {2 * host, 2 * host + 1};
  for (const int rank : ranks) told.push_back({MessageKind::entered, rank, 4000 + rank, ""});
  for (const int rank : ranks) told.push_back({MessageKind::joined, rank, 0, ""});
  for (const int rank : ranks) told.push_back({MessageKind::beat, rank, 0, "/nowhere/flight/rank-0000"});
  for (int round = 0; round < 2; ++round)
    for (const int rank : ranks) told.push_back({MessageKind::exchange, rank, 0, "contact"});
  told.push_back({MessageKind::alive, 0, 0, ""});
  if (below(random, 8) == 0)
    told.push_back({MessageKind::failed, ranks[0], static_cast<int32_t>(below(random, 8)) - 1, "it failed"});
  for (const int rank : ranks) told.push_back({MessageKind::finished, rank, 0, ""});
  for (const int rank : ranks) told.push_back({MessageKind::ended, rank, 0, ""});
  return told;
}

/// Says something else, in the right form: what an agent of the job would send that has gone wrong.
void mutate(std::vector<Sent>& told, Random& random) {
  for (size_t left = below(random, 6); left > 0 && !told.empty(); --left) {
    const size_t at = below(random, told.size());
    std::string numbers = head_of(told[at]).substr(4);
    switch (below(random, 4)) {
      case 0: told.erase(told.begin() + static_cast<int64_t>(at)); break;
      case 1: told.insert(told.begin() + static_cast<int64_t>(below(random, told.size())), Sent(told[at])); break;
      case 2: mutate(told[at].bytes, random); break;
      default:
        mutate(numbers, random);
        numbers.resize(12);
        std::memcpy(&told[at].kind, numbers.data(), 4);
        std::memcpy(&told[at].rank, &numbers[4], 4);
        std::memcpy(&told[at].value, &numbers[8], 4);
    }
  }
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
    std::vector<Sent> told = told_by(host, random);
    if (host == 1 || !alike) mutate(told, random);
    const Seals seals = seals_of(Token::draw(), "one", "other");
    Seal seal = seals.to_coordinator;
    std::string bytes;
    for (const Sent& message : told) bytes += sealed(message, seal);
    if (below(random, 4) == 0) mutate(bytes, random);
    bytes.resize(std::min<size_t>(bytes.size(), 100'000));  // fits into the socket
    send_bytes(agents.back(), bytes);
    shutdown(ends[1], SHUT_WR);
    HostJob job;
    job.placement = placement;
    job.host = host;
    auto link = std::make_unique<Link>(Descriptor(ends[0]));
    link->expect_sealed(seals.to_coordinator);
    link->seal_sent(seals.to_agent);
    coordinator.add(std::make_unique<meshrt::RemoteHost>(std::move(link), job, coordinator));
  }
  return coordinator.run() == 0;
}

// ---- what stands between

/// What somebody on the way does with messages that he can read, hold, change and repeat, but not seal.
std::string tampered(std::vector<std::string> messages, Random& random) {
  for (size_t left = below(random, 3); left > 0; --left) {
    const auto at = [&] { return messages.begin() + static_cast<int64_t>(below(random, messages.size())); };
    switch (below(random, 5)) {
      case 0: std::iter_swap(at(), at()); break;
      case 1: messages.insert(at(), std::string(*at())); break;
      case 2: messages.erase(at()); break;
      case 3: mutate(*at(), random); break;
      default: messages.insert(at(), framed({MessageKind::signal, 0, SIGKILL, ""}) + "somebody");
    }
    if (messages.empty()) break;
  }
  std::string bytes;
  for (const std::string& message : messages) bytes += message;
  return bytes;
}

/// Whatever is done on the way: what is received is the beginning of what was sent, in its order, and nothing else.
bool carry(Random& random) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no pair of sockets");
  Link link((Descriptor(ends[0])));
  const Descriptor wire(ends[1]);
  const Seals seals = seals_of(Token::draw(), "one", "other");
  link.expect_sealed(seals.to_coordinator);
  Seal seal = seals.to_coordinator;
  std::vector<Sent> sent = told_by(0, random);
  if (below(random, 2) == 0) sent.push_back({MessageKind::exchange, 0, 0, std::string(below(random, 50'000), 'x')});
  std::vector<std::string> messages;
  std::string right;
  for (const Sent& message : sent) right += messages.emplace_back(sealed(message, seal));
  const std::string bytes = tampered(messages, random);
  size_t received = 0;
  const auto receive = [&] {
    link.advance();
    meshrt::Message message;
    for (int rank = 0; link.receive(rank, message) == meshrt::Received::message; ++received) {
      const bool same = received < sent.size() && message.kind == sent[received].kind && rank == sent[received].rank &&
                        message.value == sent[received].value && message.bytes == sent[received].bytes;
      if (!same) throw std::runtime_error("a message is taken that was not sent, or not then");
    }
  };
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = 1 + below(random, below(random, 2) == 0 ? 40 : 40'000);
    send_bytes(wire, std::string_view(bytes).substr(at, length));
    at += length;
    receive();
  }
  const bool whole = right.starts_with(bytes) || bytes == right;
  if (whole && !link.fault().empty()) throw std::runtime_error("a connection is ended that nobody has disturbed");
  if (bytes == right && received != sent.size()) throw std::runtime_error("a message is lost");
  // What is there behind something wrong does not fit either; a message that seems longer is waited for.
  if (!whole && link.fault().empty() && received == sent.size() && bytes.size() > right.size() + 24)
    throw std::runtime_error("something was put in behind the last message, and nobody noticed");
  return bytes == right;
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
  Door door({"127.0.0.1"}, 0, token);
  return mesh::fuzz::run_rounds(std::stoull(argv[3]), std::stoull(argv[4]), std::chrono::seconds(std::stoll(argv[5])),
                                [&](uint64_t number) {
                                  Random random(seed * 1'000'003 + number);
                                  if (kind == "door") return come_in(door, token, random);
                                  if (kind == "coordinator") return run_job(random);
                                  if (kind == "link") return carry(random);
                                  return read_orders(random);
                                });
}
