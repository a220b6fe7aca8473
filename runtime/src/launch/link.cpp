#include "launch/link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "launch/address.h"

namespace meshrt {

namespace {

struct Head {
  uint32_t bytes;
  int32_t kind, rank, value;
};

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

void Link::send(int rank, const Message& message) {
  if (closed()) return;
  const size_t bytes = std::min(message.bytes.size(), most_bytes);
  const Head head{static_cast<uint32_t>(bytes), static_cast<int32_t>(message.kind), rank, message.value};
  out_.append(reinterpret_cast<const char*>(&head), sizeof head);
  out_.append(message.bytes, 0, bytes);
  write_some();
  if (out_.size() > most_waiting) close();
}

Received Link::receive(int& rank, Message& message) {
  Head head{};
  if (in_.size() < sizeof head) return closed() ? Received::closed : Received::nothing;
  std::memcpy(&head, in_.data(), sizeof head);
  if (head.bytes > longest_) {
    in_.clear();
    close();
    return Received::closed;
  }
  if (in_.size() < sizeof head + head.bytes) return closed() ? Received::closed : Received::nothing;
  rank = head.rank;
  message.kind = static_cast<MessageKind>(head.kind);
  message.value = head.value;
  message.bytes.assign(in_, sizeof head, head.bytes);
  in_.erase(0, sizeof head + head.bytes);
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
  while (!closed() && in_.size() <= longest_ + sizeof(Head)) {
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
