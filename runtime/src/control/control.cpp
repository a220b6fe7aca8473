#include "control/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "meshrt/failure.h"
#include "system/wait.h"

namespace meshrt {

int Control::inherited_socket() {
  const char* text = std::getenv("MESHRT_CONTROL");
  if (!text || !*text) return -1;
  const int socket = std::atoi(text);
  int type = 0;
  socklen_t length = sizeof type;
  // A program that a rank started has the variable, but not the socket.
  return getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET ? socket : -1;
}

Control::Control(Descriptor socket) : socket_(std::move(socket)) {
  fcntl(socket_.get(), F_SETFD, FD_CLOEXEC);
  pollfd readable{socket_.get(), POLLIN, 0};
  poll(&readable, 1, -1);
  Message message;
  // The launcher has said why it ended, or was killed.
  if (receive_message(socket_.get(), message, &descriptors_) == Received::closed) throw Aborted();
  if (message.kind != MessageKind::welcome)
    throw Failure(Cause::environment, "the launcher of this rank is of another version");
  welcome_ = unpack_welcome(message.bytes);
  finished_.resize(welcome_.ranks());
  send_message(socket_.get(), {MessageKind::joined, 0, {}});
  heartbeat_.emplace(socket_.get());
}

void Control::look() {
  Message message;
  for (;;) {
    switch (receive_message(socket_.get(), message)) {
      case Received::nothing: return;
      case Received::closed:
        // The kernel ends a rank whose launcher was killed, some time after it has closed the launcher's sockets: such
        // a rank says nothing.
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        throw Failure(Cause::environment, launcher_has_ended);
      case Received::message: break;
    }
    if (message.kind == MessageKind::exchange) gathered_.push_back(message.bytes);
    if (message.kind == MessageKind::finished) finished_.at(message.value) = true;
  }
}

std::vector<std::string> Control::exchange(const std::string& bytes, std::chrono::nanoseconds timeout,
                                           const std::function<void()>& idle) {
  if (bytes.size() > most_bytes)
    throw Failure(Cause::environment, fmt::format("cannot exchange {} bytes at start", bytes.size()));
  send_message(socket_.get(), {MessageKind::exchange, 0, bytes});
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (gathered_.size() < finished_.size()) {
    idle();
    pollfd readable{socket_.get(), POLLIN, 0};
    poll(&readable, 1, 1);
    look();
    if (std::chrono::steady_clock::now() > deadline)
      throw Failure(Cause::timeout, fmt::format("rank {} waits for the other ranks to start or to end", welcome_.rank));
  }
  return std::exchange(gathered_, {});
}

}  // namespace meshrt
