#include "transport/tcp_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace meshrt {

namespace {

// Far more than a round of a call (ucx_call.h) has.
constexpr int64_t longest_message = int64_t(1) << 30;

bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// How far into the part [begin, begin + size) of something `done` bytes of it reach.
size_t reached(size_t done, size_t begin, size_t size) { return done <= begin ? 0 : std::min(done - begin, size); }

}  // namespace

void SendingStream::lose(int error) {
  why_lost_ = std::strerror(error);
  socket_ = {};
}

void SendingStream::connect() {
  sockaddr_storage to{};
  std::memcpy(&to, address_.data(), std::min(address_.size(), sizeof to));
  socket_ = Descriptor(::socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket_.get() < 0) return lose(errno);
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), address_.size()) != 0 && errno != EINPROGRESS)
    lose(errno);
}

bool SendingStream::connected() {
  if (connected_) return true;
  if (socket_.get() < 0) connect();
  if (!why_lost_.empty()) return false;
  pollfd writable{socket_.get(), POLLOUT, 0};
  if (poll(&writable, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) lose(error);
  return connected_ = error == 0;
}

// One call for what is left of the hello, the header and the bytes of the first message.
bool SendingStream::send_some() {
  TcpMessage& message = *queue_.front();
  if (header_sent_ == 0) header_ = {message.tag, message.bytes};
  iovec parts[] = {
      {reinterpret_cast<char*>(&hello_) + hello_sent_, sizeof hello_ - hello_sent_},
      {reinterpret_cast<char*>(&header_) + header_sent_, sizeof header_ - header_sent_},
      {message.data + message.moved, static_cast<size_t>(message.bytes - message.moved)},
  };
  msghdr all{};
  all.msg_iov = parts, all.msg_iovlen = std::size(parts);
  const ssize_t sent = sendmsg(socket_.get(), &all, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    if (!would_wait(errno)) lose(errno);
    return false;
  }
  const auto done = static_cast<size_t>(sent);
  hello_sent_ += reached(done, 0, parts[0].iov_len);
  header_sent_ += reached(done, parts[0].iov_len, parts[1].iov_len);
  message.moved += static_cast<int64_t>(reached(done, parts[0].iov_len + parts[1].iov_len, parts[2].iov_len));
  if (message.finished()) {
    queue_.pop_front();
    header_sent_ = 0;
  }
  return true;
}

void SendingStream::progress() {
  while (!queue_.empty() && why_lost_.empty() && connected() && send_some()) {}
}

void ReceivingStream::push(const std::shared_ptr<TcpMessage>& message) {
  const auto early = std::ranges::find_if(early_, [&](const Early& e) { return e.message.tag == message->tag; });
  if (early == early_.end() || early->message.bytes != message->bytes) {
    wanted_.push_back(message);
    return;
  }
  std::memcpy(message->data, early->room.data(), static_cast<size_t>(early->message.moved));
  message->moved = early->message.moved;
  if (current_early_ == &*early) {
    current_early_ = nullptr;
    current_ = message;
    wanted_.push_front(message);
  }
  early_.erase(early);
}

// Finds a place for the message whose header has come.
void ReceivingStream::begin_message() {
  const auto wanted = std::ranges::find_if(
      wanted_, [&](const auto& m) { return m->tag == header_.tag && m->bytes == header_.bytes && m->moved == 0; });
  if (wanted != wanted_.end()) {
    current_ = *wanted;
    return;
  }
  if (header_.bytes <= 0 || header_.bytes > longest_message) {
    why_lost_ = "what came over it is no message";
    return;
  }
  Early& early = early_.emplace_back();
  early.room.resize(static_cast<size_t>(header_.bytes));
  early.message = {header_.tag, early.room.data(), header_.bytes, 0};
  current_early_ = &early;
}

// Whether bytes came; `moved` grows by them.
bool ReceivingStream::receive(std::byte* to, size_t bytes, int64_t& moved) {
  const ssize_t came = recv(socket_.get(), to, bytes, MSG_DONTWAIT);
  if (came > 0) {
    moved += came;
    return true;
  }
  if (came == 0) why_lost_ = "it was closed";
  else if (!would_wait(errno)) why_lost_ = std::strerror(errno);
  return false;
}

void ReceivingStream::finish_message() {
  if (current_) std::erase(wanted_, current_);
  current_ = nullptr, current_early_ = nullptr;
  header_received_ = 0;
}

void ReceivingStream::progress() {
  while (!wanted_.empty() && why_lost_.empty()) {
    if (!current_ && !current_early_) {
      auto* const header = reinterpret_cast<std::byte*>(&header_);
      if (!receive(header + header_received_, sizeof header_ - static_cast<size_t>(header_received_), header_received_))
        return;
      if (header_received_ < int64_t(sizeof header_)) continue;
      begin_message();
      if (!why_lost_.empty()) return;
    }
    TcpMessage& message = current_ ? *current_ : current_early_->message;
    if (!receive(message.data + message.moved, static_cast<size_t>(message.bytes - message.moved), message.moved))
      return;
    if (message.finished()) finish_message();
  }
}

TcpNewcomer::Said TcpNewcomer::look(uint64_t secret) {
  const ssize_t came =
      recv(socket_.get(), reinterpret_cast<char*>(&hello_) + received_, sizeof hello_ - received_, MSG_DONTWAIT);
  if (came == 0 || (came < 0 && !would_wait(errno))) return Said::nonsense;
  if (came > 0) received_ += static_cast<size_t>(came);
  if (received_ < sizeof hello_) return Said::nothing_yet;
  return hello_.secret == secret ? Said::hello : Said::nonsense;
}

}  // namespace meshrt
