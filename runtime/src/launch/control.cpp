#include "launch/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace meshrt {

namespace {

constexpr size_t most_bytes = 64 << 10;  // of one message; longer texts are cut
constexpr size_t most_descriptors = 2;

struct Head {
  int32_t kind, value;
};

}  // namespace

bool send_message(int socket, const Message& message, const std::vector<int>& descriptors) {
  Head head{static_cast<int32_t>(message.kind), message.value};
  iovec parts[2] = {{&head, sizeof head},
                    {const_cast<char*>(message.bytes.data()), std::min(message.bytes.size(), most_bytes)}};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = 2;
  alignas(cmsghdr) char room[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  if (!descriptors.empty()) {
    packet.msg_control = room;
    packet.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  for (;;) {
    if (sendmsg(socket, &packet, MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    pollfd writable{socket, POLLOUT, 0};
    poll(&writable, 1, -1);
  }
}

Received receive_message(int socket, Message& message, std::vector<int>* descriptors) {
  Head head{};
  message.bytes.resize(most_bytes);
  iovec parts[2] = {{&head, sizeof head}, {message.bytes.data(), message.bytes.size()}};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = 2;
  alignas(cmsghdr) char room[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  packet.msg_control = room;
  packet.msg_controllen = sizeof room;
  ssize_t length = 0;
  // A peer that ends with messages unread resets the connection once; its own last messages are still there.
  do length = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  if (length < 0 && errno == EAGAIN) return Received::nothing;
  if (length < static_cast<ssize_t>(sizeof head)) return Received::closed;
  message.kind = static_cast<MessageKind>(head.kind);
  message.value = head.value;
  message.bytes.resize(length - sizeof head);
  for (cmsghdr* rights = CMSG_FIRSTHDR(&packet); rights; rights = CMSG_NXTHDR(&packet, rights)) {
    if (rights->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::vector<int> received(count);
    std::memcpy(received.data(), CMSG_DATA(rights), count * sizeof(int));
    if (descriptors) descriptors->insert(descriptors->end(), received.begin(), received.end());
    else std::ranges::for_each(received, close);
  }
  return Received::message;
}

int Control::inherited_socket() {
  const char* text = std::getenv("MESHRT_CONTROL");
  if (!text || !*text) return -1;
  const int socket = std::atoi(text);
  int type = 0;
  socklen_t length = sizeof type;
  // A program that a rank started has the variable, but not the socket.
  return getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET ? socket : -1;
}

Control::Control(int socket) : socket_(socket) {
  fcntl(socket_, F_SETFD, FD_CLOEXEC);
  pollfd readable{socket_, POLLIN, 0};
  poll(&readable, 1, -1);
  Message message;
  if (receive_message(socket_, message, &descriptors_) != Received::message || message.kind != MessageKind::welcome ||
      message.bytes.size() != sizeof welcome_)
    throw Failure(Cause::environment, "the launcher of this rank is gone, or of another version");
  std::memcpy(&welcome_, message.bytes.data(), sizeof welcome_);
  finished_.resize(welcome_.ranks);
  send_message(socket_, {MessageKind::joined, 0, {}});
}

Control::~Control() { close(socket_); }

void Control::look() {
  Message message;
  for (;;) {
    switch (receive_message(socket_, message)) {
      case Received::nothing: return;
      case Received::closed: throw Failure(Cause::environment, "the launcher of this job has ended");
      case Received::message: break;
    }
    if (message.kind == MessageKind::exchange) gathered_.push_back(message.bytes);
    if (message.kind == MessageKind::finished) finished_[message.value] = true;
  }
}

std::vector<std::string> Control::exchange(const std::string& bytes, std::chrono::nanoseconds timeout,
                                           const std::function<void()>& idle) {
  if (bytes.size() > most_bytes)
    throw Failure(Cause::environment, fmt::format("cannot exchange {} bytes at start", bytes.size()));
  send_message(socket_, {MessageKind::exchange, 0, bytes});
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (gathered_.size() < finished_.size()) {
    idle();
    pollfd readable{socket_, POLLIN, 0};
    poll(&readable, 1, 1);
    look();
    if (std::chrono::steady_clock::now() > deadline)
      throw Failure(Cause::timeout, fmt::format("rank {} waits for the other ranks to start or to end", welcome_.rank));
  }
  return std::exchange(gathered_, {});
}

}  // namespace meshrt
