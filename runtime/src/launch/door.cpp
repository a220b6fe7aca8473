#include "launch/door.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cstdio>

#include "launch/packing.h"
#include "launch/welcome.h"
#include "report/tell.h"

namespace meshrt {

namespace {

constexpr size_t most_callers = 64;    // that have not yet shown who they are
constexpr size_t longest_word = 1024;  // of theirs
constexpr auto time_to_answer = std::chrono::seconds(5);

// Both sides' proofs cover both numbers, so neither can be used again, or handed back.
uint64_t proof(const Token& token, std::string_view who, const std::string& one, const std::string& other) {
  return token.proof(fmt::format("{}{}{}", who, one, other));
}

void pack_proof(Packer& to, uint64_t proof) { to.text({reinterpret_cast<const char*>(&proof), sizeof proof}); }

bool is_proof(Unpacker& from, uint64_t expected) {
  const std::string text = from.text();
  uint64_t given = 0;
  if (text.size() != sizeof given) return false;
  std::memcpy(&given, text.data(), sizeof given);
  return given == expected;
}

// The next message of a link that nobody else polls.
Message wait_for(Link& link, MessageKind kind, Link::Clock::time_point deadline) {
  Message message;
  int rank = 0;
  while (Link::Clock::now() < deadline) {
    link.advance();
    const Received received = link.receive(rank, message);
    if (received == Received::closed) break;
    if (received == Received::message && message.kind == kind) return message;
    if (received == Received::message) continue;
    pollfd readable = link.watched();
    poll(&readable, 1, 100);
  }
  throw Failure(Cause::environment,
                fmt::format("{} does not take this host in: it has another token, is of another version, or is no "
                            "coordinator of meshrun",
                            link.peer()));
}

}  // namespace

Door::Door(const std::string& host, int port, Token token) : listener_(listen_at(host, port)), token_(token) {}

void Door::watch(std::vector<pollfd>& watched) const {
  watched.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) watched.push_back(caller.link->watched());
}

void Door::answer_calls() {
  while (callers_.size() < most_callers) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) return;
    Caller caller{std::make_unique<Link>(std::move(socket)), draw_nonce(), Link::Clock::now()};
    caller.link->accept_up_to(longest_word);
    Packer challenge;
    challenge.number(protocol_version);
    challenge.text(caller.nonce);
    caller.link->send(0, {MessageKind::challenge, 0, challenge.bytes()});
    callers_.push_back(std::move(caller));
  }
}

bool Door::knows(const Caller& caller, const Message& message, Visitor& visitor) const {
  if (message.kind != MessageKind::proof) return false;
  try {
    Unpacker from(message.bytes);
    const std::string nonce = from.text();
    if (!is_proof(from, proof(token_, "agent", caller.nonce, nonce))) return false;
    visitor.hello.host = from.number();
    visitor.hello.name = from.text();
    Packer answer;
    pack_proof(answer, proof(token_, "coordinator", nonce, caller.nonce));
    caller.link->send(0, {MessageKind::admitted, 0, answer.bytes()});
    return true;
  } catch (const Failure&) {
    return false;
  }
}

std::vector<Visitor> Door::admit() {
  answer_calls();
  std::vector<Visitor> visitors;
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    caller->link->advance();
    Message message;
    int rank = 0;
    Received received = caller->link->receive(rank, message);
    if (received == Received::message && message.kind == MessageKind::alive) received = Received::nothing;
    Visitor visitor;
    if (received == Received::message && knows(*caller, message, visitor)) {
      caller->link->accept_up_to(most_bytes);
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
  return visitors;
}

void Door::turn_away(const Caller& caller) {
  if (told_) return;
  told_ = true;
  tell("warning: {} was turned away: it does not have this job's token\n", caller.link->peer());
}

std::unique_ptr<Link> enter(const std::vector<Address>& addresses, const Token& token, const Hello& hello,
                            std::chrono::milliseconds limit) {
  const auto deadline = Link::Clock::now() + limit;
  auto link = std::make_unique<Link>(connect_to(addresses, limit));
  link->accept_up_to(longest_word);
  const Message challenge = wait_for(*link, MessageKind::challenge, deadline);
  Unpacker from(challenge.bytes);
  if (const int version = from.number(); version != protocol_version)
    throw Failure(Cause::environment, fmt::format("the coordinator at {} speaks version {}, this host version {}",
                                                  link->peer(), version, protocol_version));
  const std::string theirs = from.text(), mine = draw_nonce();
  Packer to;
  to.text(mine);
  pack_proof(to, proof(token, "agent", theirs, mine));
  to.number(hello.host);
  to.text(hello.name);
  link->send(0, {MessageKind::proof, 0, to.bytes()});
  const Message answer = wait_for(*link, MessageKind::admitted, deadline);
  Unpacker proven(answer.bytes);
  if (!is_proof(proven, proof(token, "coordinator", mine, theirs)))
    throw Failure(Cause::environment, fmt::format("{} does not have the token of this job", link->peer()));
  link->accept_up_to(most_bytes);
  return link;
}

}  // namespace meshrt
