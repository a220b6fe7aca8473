#include "launch/door.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <thread>

#include "control/packing.h"
#include "control/welcome.h"
#include "launch/local_name.h"
#include "system/tell.h"

namespace meshrt {

namespace {

// Of callers that have not yet shown who they are: of all, of one address, and taken in at once. Whoever can prove
// himself does it before so many others have come; the rest waits in the kernel's queue.
constexpr size_t most_callers = 256, most_of_one_host = 16, most_at_once = 8;
constexpr size_t longest_word = 2048;  // of theirs
constexpr auto time_to_answer = std::chrono::seconds(5);
constexpr auto time_to_hurry = std::chrono::seconds(1);        // the same where others wait
constexpr auto rest_of_door = std::chrono::milliseconds(100);  // when this process has no descriptor left

std::string bytes_of(uint64_t number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

// What an agent says when it proves itself, without the proof.
std::string introduction(const std::string& nonce, const std::string& credential, const Hello& hello) {
  Packer to;
  to.text(nonce);
  to.text(credential);
  to.number(hello.host);
  to.text(hello.name);
  return to.bytes();
}

// Each covers both numbers, so neither can be used again, or handed back.
std::string agent_proof(const Token& token, const std::string& coordinator_nonce, const std::string& introduction) {
  return bytes_of(token.proof("agent" + coordinator_nonce + introduction));
}
std::string coordinator_proof(const Token& token, const std::string& agent_nonce, const std::string& own_nonce) {
  return bytes_of(token.proof("coordinator" + agent_nonce + own_nonce));
}

enum class Answer { came, refused, nothing };

// The next message of a link that nobody else polls.
Answer wait_for(Link& link, MessageKind kind, Link::Clock::time_point deadline, Message& message) {
  int rank = 0;
  while (Link::Clock::now() < deadline) {
    link.advance();
    const Received received = link.receive(rank, message);
    if (received == Received::closed) return Answer::nothing;
    if (received == Received::message && message.kind == kind) return Answer::came;
    if (received == Received::message && message.kind == MessageKind::refused) return Answer::refused;
    if (received == Received::message) continue;
    pollfd readable = link.watched();
    poll(&readable, 1, 100);
  }
  return Answer::nothing;
}

// One try; nothing when it is hung up on without a word.
std::unique_ptr<Link> knock(std::unique_ptr<Link> link, const Secret& secret, const Hello& hello,
                            Link::Clock::time_point deadline) {
  link->accept_up_to(longest_word);
  Message message;
  if (wait_for(*link, MessageKind::challenge, deadline, message) != Answer::came) return nullptr;
  Unpacker from(message.bytes);
  if (const int version = from.number(); version != protocol_version)
    throw Failure(Cause::environment, fmt::format("the coordinator at {} speaks version {}, this host version {}",
                                                  link->peer(), version, protocol_version));
  const std::string theirs = from.text(), mine = draw_nonce();
  const Secret::Pass pass = secret.draw_pass(theirs);
  const std::string words = introduction(mine, pass.credential, hello);
  Packer to;
  to.text(words);
  to.text(agent_proof(pass.token, theirs, words));
  link->send(0, {MessageKind::proof, 0, to.bytes()});
  const Seals seals = seals_of(pass.token, theirs, mine);
  link->seal_sent(seals.to_coordinator);
  const Answer answer = wait_for(*link, MessageKind::admitted, deadline, message);
  if (answer == Answer::refused)
    throw Failure(Cause::environment, fmt::format("{} does not take this host in: it has another token", link->peer()));
  if (answer == Answer::nothing) return nullptr;
  if (message.bytes != coordinator_proof(pass.token, mine, theirs))
    throw Failure(Cause::environment, fmt::format("{} does not have the token of this job", link->peer()));
  link->expect_sealed(seals.to_agent);
  return link;
}

}  // namespace

Seals seals_of(const Token& token, const std::string& coordinator_nonce, const std::string& agent_nonce) {
  return {Seal(token.key("to agent" + coordinator_nonce + agent_nonce)),
          Seal(token.key("to coordinator" + coordinator_nonce + agent_nonce))};
}

Door::Door(const std::vector<std::string>& hosts, int port, Secret secret)
    : listeners_(listen_at(hosts, port)), secret_(std::move(secret)) {}

// When all places are taken the longest one there makes room, but not before it had time to prove itself.
bool Door::has_room() const {
  const auto now = Link::Clock::now();
  return now >= rests_until_ && (callers_.size() < most_callers || now - callers_.front().since > time_to_hurry);
}

void Door::watch(std::vector<pollfd>& watched) const {
  if (has_room())
    for (const Descriptor& listener : listeners_) watched.push_back({listener.get(), POLLIN, 0});
  for (const Caller& caller : callers_) watched.push_back(caller.link->watched());
}

void Door::answer_calls() {
  for (const Descriptor& listener : listeners_)
    for (size_t taken = 0; taken < most_at_once && has_room(); ++taken) {
      Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.get() < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        if (!callers_.empty()) callers_.pop_front();
        rests_until_ = Link::Clock::now() + rest_of_door;
      }
      if (socket.get() < 0) break;
      answer(std::move(socket));
    }
}

void Door::answer(Descriptor socket) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length);
  if (own.ss_family == AF_UNIX && !is_of_this_user(socket.get())) return;
  const std::string host = peer_host(socket.get());
  Caller caller{std::make_unique<Link>(std::move(socket)), host, draw_nonce(), Link::Clock::now()};
  if (std::ranges::count(callers_, host, &Caller::host) >= static_cast<int64_t>(most_of_one_host)) {
    const auto oldest = std::ranges::find(callers_, host, &Caller::host);
    turn_away(*oldest);
    callers_.erase(oldest);
  } else if (callers_.size() >= most_callers) {
    turn_away(callers_.front());
    callers_.pop_front();
  }
  caller.link->accept_up_to(longest_word);
  Packer challenge;
  challenge.number(protocol_version);
  challenge.text(caller.nonce);
  caller.link->send(0, {MessageKind::challenge, 0, challenge.bytes()});
  callers_.push_back(std::move(caller));
}

bool Door::knows(const Caller& caller, const Message& message, Visitor& visitor) const {
  if (message.kind != MessageKind::proof) return false;
  try {
    Unpacker whole(message.bytes);
    const std::string words = whole.text(), proof = whole.text();
    Unpacker from(words);
    const std::string nonce = from.text(), credential = from.text();
    visitor.hello.host = from.number();
    visitor.hello.name = from.text();
    const std::optional<Token> token = secret_.open(credential, caller.nonce);
    if (!token || proof != agent_proof(*token, caller.nonce, words)) {
      caller.link->send(0, {MessageKind::refused, 0, {}});
      return false;
    }
    const Seals seals = seals_of(*token, caller.nonce, nonce);
    caller.link->expect_sealed(seals.to_coordinator);
    caller.link->send(0, {MessageKind::admitted, 0, coordinator_proof(*token, nonce, caller.nonce)});
    caller.link->seal_sent(seals.to_agent);
    return true;
  } catch (const Failure&) {
    return false;
  }
}

std::vector<Visitor> Door::admit() {
  std::vector<Visitor> visitors;
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    caller->link->advance();
    Message message;
    int rank = 0;
    Received received = caller->link->receive(rank, message);
    if (received == Received::message && message.kind == MessageKind::alive) received = Received::nothing;
    Visitor visitor;
    if (received == Received::message && knows(*caller, message, visitor)) {
      visitor.link = std::move(caller->link);
      visitors.push_back(std::move(visitor));
    } else if (received == Received::nothing && Link::Clock::now() - caller->since < time_to_answer) {
      ++caller;
      continue;
    } else {
      turn_away(*caller);
    }
    caller = callers_.erase(caller);
  }
  answer_calls();  // after the others: whoever was there first has been heard
  return visitors;
}

void Door::turn_away(const Caller& caller) {
  if (told_) return;
  told_ = true;
  tell("warning: {} was turned away: it does not have this job's token\n", caller.link->peer());
}

std::unique_ptr<Link> enter(const std::vector<Address>& addresses, const Secret& secret, const Hello& hello,
                            std::chrono::milliseconds limit) {
  const auto deadline = Link::Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Link::Clock::now());
    auto link = std::make_unique<Link>(connect_to(addresses, std::max(left, std::chrono::milliseconds(1))));
    const std::string peer = link->peer();
    if (auto entered = knock(std::move(link), secret, hello, deadline)) return entered;
    if (Link::Clock::now() >= deadline)
      throw Failure(Cause::environment, fmt::format("{} does not take this host in: it is of another version, or is no "
                                                    "coordinator of meshrun",
                                                    peer));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // too many were there at once
  }
}

}  // namespace meshrt
