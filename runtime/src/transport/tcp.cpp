#include "transport/tcp.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "meshrt/failure.h"
#include "system/token.h"

namespace meshrt {

namespace {

constexpr size_t secret_bytes = sizeof(uint64_t);

// Connections that have not said whose they are, beside one of each rank: strangers'.
constexpr size_t most_strangers = 256;

struct Free {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

Descriptor listen_at(const std::string& number, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  // The own address of a link means nothing without its interface, which has another number on another host.
  if (number.empty() || number.starts_with("fe80") ||
      getaddrinfo(number.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return {};
  const std::unique_ptr<addrinfo, Free> list(found);
  Descriptor socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket.get() < 0 || bind(socket.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0)
    return {};
  return socket;
}

// The range of ports that UCX keeps to, as `50000-50999`, holds here too; one that is not understood has none.
Descriptor listen_at_free_port(const std::string& number) {
  int first = 0, last = 0;
  if (const char* const range = std::getenv("UCX_TCP_PORT_RANGE"); range && *range)
    if (std::sscanf(range, "%d-%d", &first, &last) != 2 || first < 1 || last > 65535) return {};
  Descriptor socket;
  for (int port = first; port <= last && socket.get() < 0; ++port) socket = listen_at(number, port);
  return socket;
}

// Two for each rank of another host, beside UCX's: as many as the system allows, not the thousand that a shell does.
void allow_many_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string address_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  return {reinterpret_cast<const char*>(&address), length};
}

}  // namespace

Tcp::Tcp(const std::string& address, int rank) : rank_(rank), listening_(listen_at_free_port(address)) {
  if (listening_.get() < 0) return;
  allow_many_descriptors();
  listens_at_ = address_of(listening_.get());
  std::memcpy(&secret_, draw_nonce().data(), sizeof secret_);
}

std::string Tcp::address() const {
  if (listens_at_.empty()) return "";
  return std::string(reinterpret_cast<const char*>(&secret_), secret_bytes) + listens_at_;
}

void Tcp::meet(const std::vector<std::string>& addresses, const std::vector<int>& host_of_rank) {
  if (listens_at_.empty()) return;
  peers_.resize(addresses.size());
  for (size_t rank = 0; rank < addresses.size(); ++rank) {
    if (addresses[rank].size() <= secret_bytes || host_of_rank[rank] == host_of_rank[rank_]) continue;
    TcpHello hello{0, rank_};
    std::memcpy(&hello.secret, addresses[rank].data(), secret_bytes);
    peers_[rank].reset(new Peer{SendingStream(addresses[rank].substr(secret_bytes), hello), {}});
  }
}

Tcp::Peer& Tcp::active(int rank) {
  Peer& peer = *peers_[rank];
  if (!peer.active) active_.push_back(rank);
  peer.active = true;
  return peer;
}

std::shared_ptr<TcpMessage> Tcp::send(int rank, uint64_t tag, const void* data, int64_t bytes) {
  // Sent from there, never written to.
  auto* const from = static_cast<std::byte*>(const_cast<void*>(data));
  auto message = std::make_shared<TcpMessage>(TcpMessage{tag, from, bytes});
  Peer& peer = active(rank);
  peer.out.push(message);
  peer.out.progress();
  return message;
}

std::shared_ptr<TcpMessage> Tcp::receive(int rank, uint64_t tag, void* data, int64_t bytes) {
  auto message = std::make_shared<TcpMessage>(TcpMessage{tag, static_cast<std::byte*>(data), bytes});
  active(rank).in.push(message);
  return message;
}

void Tcp::move(Peer& peer) {
  peer.out.progress();
  if (!peer.in.idle() && !peer.in.connected()) accept_some();
  if (peer.in.connected()) peer.in.progress();
}

void Tcp::progress() {
  for (size_t i = 0; i < active_.size();) {
    Peer& peer = *peers_[active_[i]];
    move(peer);
    peer.active = !peer.out.idle() || !peer.in.idle();
    if (peer.active) ++i;
    else active_[i] = active_.back(), active_.pop_back();
  }
}

void Tcp::accept_some() {
  if (Descriptor socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); socket.get() >= 0)
    newcomers_.emplace_back(std::move(socket));
  else if (errno == EMFILE || errno == ENFILE)
    throw Failure(Cause::environment,
                  fmt::format("this rank can open no connection more: {}; raise `ulimit -n`, or set MESHRT_NO=tcp",
                              std::strerror(errno)));
  if (newcomers_.size() > peers_.size() + most_strangers) newcomers_.erase(newcomers_.begin());
  std::erase_if(newcomers_, [&](TcpNewcomer& newcomer) {
    const TcpNewcomer::Said said = newcomer.look(secret_);
    if (said != TcpNewcomer::Said::hello) return said == TcpNewcomer::Said::nonsense || newcomer.late();
    const int64_t rank = newcomer.rank();
    const bool known = rank >= 0 && rank < static_cast<int64_t>(peers_.size()) && peers_[rank];
    if (known && !peers_[rank]->in.connected()) peers_[rank]->in.accept(newcomer.take());
    return true;
  });
}

std::string Tcp::why_lost(int rank) const {
  if (!reaches(rank)) return "";
  const Peer& peer = *peers_[rank];
  return !peer.out.why_lost().empty() ? peer.out.why_lost() : peer.in.why_lost();
}

}  // namespace meshrt
