#include "launch/link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "launch/address.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

constexpr size_t most_waiting = 256 << 20;  // bytes that a peer has not taken
constexpr auto between_signs = std::chrono::seconds(2);
constexpr auto own_pause = std::chrono::seconds(5);  // this process was stopped, or its machine slept

}  // namespace

Link::Link(Descriptor socket)
    : socket_(std::move(socket)),
      peer_(peer_name(socket_.get())),
      longest_(most_bytes),
      heard_(Clock::now()),
      spoke_(heard_),
      advanced_(heard_) {
  fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // The kernel gives up on a host that confirms nothing; silence alone is noticed here.
  const int patience = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(silence).count());
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

void Link::append(std::string_view piece) {
  out_.append(piece);
  if (sent_) out_ += sent_->next(piece);
}

void Link::send(int rank, const Message& message) {
  if (closed()) return;
  if (message.bytes.size() > longest_message)
    throw Failure(Cause::environment, fmt::format("a message of {} bytes to {} is too long: {} bytes are the most",
                                                  message.bytes.size(), peer_, longest_message));
  const Head head{static_cast<uint32_t>(message.bytes.size()), static_cast<int32_t>(message.kind), rank, message.value};
  append({reinterpret_cast<const char*>(&head), sizeof head});
  if (!message.bytes.empty()) append(message.bytes);
  write_some();
  if (out_.size() > most_waiting) give_up("it takes nothing of what it is sent");
}

void Link::give_up(const std::string& fault) {
  fault_ = fault;
  in_.clear();
  close();
}

// The next bytes that have come, if they are all there and their seal fits.
bool Link::take(size_t bytes, std::string& piece) {
  const size_t whole = bytes + (expected_ ? Seal::bytes : 0);
  if (in_.size() < whole) return false;
  piece.assign(in_, 0, bytes);
  if (expected_ && std::string_view(in_).substr(bytes, Seal::bytes) != expected_->next(piece)) {
    give_up("something was changed, put in, left out or repeated on the way: somebody else speaks on this network");
    return false;
  }
  in_.erase(0, whole);
  return true;
}

Received Link::receive(int& rank, Message& message) {
  const auto nothing = [&] { return closed() ? Received::closed : Received::nothing; };
  std::string piece;
  if (!head_) {
    if (!take(sizeof(Head), piece)) return nothing();
    std::memcpy(&head_.emplace(), piece.data(), sizeof(Head));
    if (head_->bytes > longest_) give_up("it sends what is no message");
  }
  if (!fault_.empty() || (head_->bytes > 0 && !take(head_->bytes, message.bytes))) return nothing();
  if (head_->bytes == 0) message.bytes.clear();
  rank = head_->rank;
  message.kind = static_cast<MessageKind>(head_->kind);
  message.value = head_->value;
  head_.reset();
  return Received::message;
}

void Link::advance() {
  const auto now = Clock::now();
  if (now - advanced_ > own_pause) heard_ = now;
  advanced_ = now;
  read_some();
  write_some();
  if (now - spoke_ > between_signs) send(0, {MessageKind::alive, 0, {}});
}

void Link::read_some() {
  std::array<char, 65536> room;
  // What has come is taken out before more is read, so little can pile up.
  while (!closed() && in_.size() <= longest_ + sizeof(Head) + 2 * Seal::bytes) {
    const ssize_t length = recv(socket_.get(), room.data(), room.size(), 0);
    if (length > 0) {
      in_.append(room.data(), length);
      heard_ = advanced_;
    } else if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
      close();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void Link::write_some() {
  while (!closed() && !out_.empty()) {
    const ssize_t length = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (length > 0) {
      out_.erase(0, length);
      spoke_ = Clock::now();
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      // What the peer has said before it left can still be read.
      out_.clear();
      shutdown(socket_.get(), SHUT_WR);
      return;
    }
  }
}

std::string Link::own_address() const { return own_address_of(socket_.get()); }

}  // namespace meshrt
