#include "control/message.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "meshrt/failure.h"

namespace meshrt {

namespace {

constexpr size_t most_descriptors = 2;

struct MessageHead {
  int32_t kind, value;
};

// errno, or 0.
int send_packet(int socket, const Message& message, const std::vector<int>& descriptors, int flags) {
  if (message.bytes.size() > most_bytes)
    throw Failure(Cause::environment,
                  fmt::format("{} bytes are too many for one message between a launcher and its ranks, which has at "
                              "most {}: a job of fewer ranks needs fewer",
                              message.bytes.size(), most_bytes));
  MessageHead head{static_cast<int32_t>(message.kind), message.value};
  iovec parts[2] = {{&head, sizeof head}, {const_cast<char*>(message.bytes.data()), message.bytes.size()}};
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
  while (sendmsg(socket, &packet, MSG_NOSIGNAL | flags) < 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace

bool send_message(int socket, const Message& message, const std::vector<int>& descriptors) {
  for (;;) {
    const int error = send_packet(socket, message, descriptors, 0);
    if (error != EAGAIN) return error == 0;
    pollfd writable{socket, POLLOUT, 0};
    poll(&writable, 1, -1);
  }
}

bool offer_message(int socket, const Message& message) {
  return send_packet(socket, message, {}, MSG_DONTWAIT) != EAGAIN;
}

Received receive_message(int socket, Message& message, std::vector<int>* descriptors) {
  MessageHead head{};
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

}  // namespace meshrt
