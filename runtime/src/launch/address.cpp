#include "launch/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>
#include <thread>

#include "launch/local_name.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

using Clock = std::chrono::steady_clock;

struct Release {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};
using Resolved = std::unique_ptr<addrinfo, Release>;

Failure unreachable(const std::string& what) { return {Cause::environment, what}; }

// `why` says what went wrong when the result is empty.
Resolved resolve(const std::string& host, int port, int type, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) why = fmt::format("the name cannot be resolved: {}", gai_strerror(code));
  return Resolved(code == 0 ? list : nullptr);
}

std::string number_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  if (address->sa_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

int port_number(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// One try; an empty descriptor and why when it fails.
Descriptor try_to_connect(const Address& address, std::chrono::milliseconds limit, std::string& why) {
  if (address.is_local_name()) {
    Descriptor socket = call_once(address.host, SOCK_STREAM);
    if (socket.get() < 0) why = std::strerror(errno);
    return socket;
  }
  const Resolved list = resolve(address.host, address.port, SOCK_STREAM, why);
  for (const addrinfo* at = list.get(); at; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.get() < 0) continue;
    int error = connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd ready{socket.get(), POLLOUT, 0};
      error = ETIMEDOUT;
      socklen_t length = sizeof error;
      if (poll(&ready, 1, static_cast<int>(limit.count())) > 0)
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0) return socket;
    why = std::strerror(error);
  }
  return {};
}

// -1 where it cannot be.
Descriptor listen_there(const std::string& host, int port, std::string& why) {
  const Resolved list = resolve(host, port, SOCK_STREAM, why);
  for (const addrinfo* at = list.get(); at; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at->ai_family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0 && listen(socket.get(), 1024) == 0) return socket;
    why = std::strerror(errno);
  }
  return {};
}

}  // namespace

std::string Address::text() const {
  if (is_local_name()) return host;
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Address parse_address(const std::string& text, const std::string& what) {
  if (text.starts_with('@')) return {text, 0};
  const size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  const size_t end = bracketed ? text.find(']') : colon;
  const auto wrong = [&] { return Failure(Cause::usage, fmt::format("{} is `{}`; give HOST:PORT", what, text)); };
  if (colon == std::string::npos || end == std::string::npos || (bracketed && colon != end + 1)) throw wrong();
  Address address{text.substr(bracketed, end - bracketed), 0};
  const std::string digits = text.substr(colon + 1);
  if (address.host.empty() || digits.empty() || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    throw wrong();
  address.port = std::stoi(digits);
  if (address.port < 1 || address.port > 65535) throw wrong();
  return address;
}

std::vector<Address> parse_addresses(const std::string& text, const std::string& what) {
  std::vector<Address> addresses;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) addresses.push_back(parse_address(part, what));
  return addresses;
}

std::vector<Descriptor> listen_at(const std::vector<std::string>& hosts, int port) {
  std::vector<Descriptor> sockets;
  if (hosts.size() == 1 && hosts[0].starts_with('@')) {
    sockets.push_back(listen_under(hosts[0], SOCK_STREAM));
    if (sockets[0].get() < 0) throw unreachable("another process has the name of this job's socket");
    return sockets;
  }
  std::string why = "there is no such address";
  constexpr int tries = 20;  // until a free port is free everywhere
  for (int left = port == 0 ? tries : 1; left > 0 && sockets.size() < hosts.size(); --left) {
    std::vector<Descriptor> found;
    for (const std::string& host : hosts) {
      Descriptor socket = listen_there(host, found.empty() ? port : port_of(found[0].get()), why);
      // Where others expect this host at one port, somebody else must not be there.
      if (socket.get() < 0 && port != 0 && why == std::strerror(EADDRINUSE))
        throw unreachable(fmt::format("cannot listen at {}: {}", Address{host, port}.text(), why));
      if (socket.get() >= 0) found.push_back(std::move(socket));
    }
    if (found.size() > sockets.size()) sockets = std::move(found);
  }
  if (sockets.empty())
    throw unreachable(fmt::format("cannot listen at {}: {}", Address{hosts.at(0), port}.text(), why));
  return sockets;
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return address.ss_family == AF_UNIX ? 0 : port_number(address);
}

Descriptor connect_to(const std::vector<Address>& addresses, std::chrono::milliseconds limit) {
  constexpr auto one_try = std::chrono::milliseconds(3000), pause = std::chrono::milliseconds(100);
  const auto deadline = Clock::now() + limit;
  std::string why = "there is no address";
  do {
    for (const Address& address : addresses) {
      Descriptor socket = try_to_connect(address, std::min(limit, one_try), why);
      if (socket.get() >= 0) return socket;
    }
    std::this_thread::sleep_for(pause);
  } while (Clock::now() < deadline);
  std::vector<std::string> texts;
  texts.reserve(addresses.size());
  for (const Address& address : addresses) texts.push_back(address.text());
  throw unreachable(fmt::format("cannot connect to {} within {:g} s: {}", fmt::join(texts, " or "),
                                std::chrono::duration<double>(limit).count(), why));
}

std::optional<std::string> address_towards(const std::string& host) {
  std::string why;
  const Resolved list = resolve(host, 9, SOCK_DGRAM, why);
  for (const addrinfo* at = list.get(); at; at = at->ai_next) {
    // Connecting a datagram socket sends nothing: it only looks the route up.
    const Descriptor socket(::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0) return own_address_of(socket.get());
  }
  return std::nullopt;
}

std::vector<std::string> own_addresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, Release> list(all);
  std::vector<std::string> found;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* at = all; at; at = at->ifa_next) {
      if (!at->ifa_addr || at->ifa_addr->sa_family != family) continue;
      if (!(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK)) continue;
      const std::string number = number_of(at->ifa_addr);
      if (!number.starts_with("fe80")) found.push_back(number);  // means nothing without its interface
    }
  if (found.empty()) found.emplace_back("127.0.0.1");
  return found;
}

std::string interface_of(const std::string& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, Release> list(all);
  for (const ifaddrs* at = all; at; at = at->ifa_next)
    if (at->ifa_addr && number_of(at->ifa_addr) == address && !address.empty()) return at->ifa_name;
  return "";
}

std::vector<std::string> addresses_as(const std::string& host) {
  std::string why;
  std::vector<std::string> found;
  const Resolved list = resolve(host, 0, SOCK_STREAM, why);
  for (const addrinfo* at = list.get(); at; at = at->ai_next)
    if (const std::string number = number_of(at->ai_addr);
        (!interface_of(number).empty() || is_loopback(number)) && std::ranges::find(found, number) == found.end())
      found.push_back(number);
  if (is_loopback(host) || !std::ranges::all_of(found, is_loopback)) return found;
  for (const std::string& own : own_addresses())
    if (std::ranges::find(found, own) == found.end()) found.push_back(own);
  return found;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

std::string own_address_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  return number_of(reinterpret_cast<sockaddr*>(&address));
}

std::string peer_name(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "a host that is gone";
  if (address.ss_family == AF_UNIX) return fmt::format("process {} of this host", peer_of(socket).pid);
  return Address{number_of(reinterpret_cast<sockaddr*>(&address)), port_number(address)}.text();
}

std::string peer_host(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  return number_of(reinterpret_cast<sockaddr*>(&address));
}

}  // namespace meshrt
