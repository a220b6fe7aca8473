// tcp_floor.cpp: the floor for tests/bench/collectives between hosts: what an all-reduce of two ranks costs by plain
// sockets and nothing else: tcp_floor FOLDER NAME RANK ADDRESS, where rank 0 listens. Each sends the other all it has,
// from where it lies, and adds what comes as it comes, without ever waiting in the kernel. g++ -O3 -march=native
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "commands.h"

namespace {

constexpr long piece = 128l << 10;  // bytes at a time: they are added while the second-level cache has them

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// The connection of the two ranks.
int connected(int rank, const char* address) {
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons(29512);
  if (inet_pton(AF_INET, address, &at.sin_addr) != 1) fail(address);
  auto* const where = reinterpret_cast<sockaddr*>(&at);
  const int on = 1;
  int link = -1;
  if (rank == 0) {
    const int door = socket(AF_INET, SOCK_STREAM, 0);
    const timeval patience{30, 0};
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(door, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (bind(door, where, sizeof at) != 0 || listen(door, 1) != 0) fail("listen");
    link = accept(door, nullptr, nullptr);
    close(door);
  }
  for (int attempt = 0; rank != 0 && attempt < 600; ++attempt) {
    link = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(link, where, sizeof at) == 0) break;
    close(link), link = -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (link < 0) fail("connect");
  setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return link;
}

class Floor : public bench::Peer {
 public:
  Floor(int rank, const char* address)
      : rank_(rank),
        link_(connected(rank, address)),
        in_(bench::most_bytes / sizeof(float)),
        out_(in_.size()),
        came_(in_.size()) {}
  int rank() const override { return rank_; }
  int ranks() const override { return 2; }
  float* input(const std::string&, long) override { return in_.data(); }
  const float* output(const std::string&) const override { return out_.data(); }
  void barrier() override { exchange(1); }
  bool call(const std::string& collective, long count) override {
    if (collective != "all_reduce") return false;
    exchange(count);
    return true;
  }

 private:
  void exchange(long count) {
    const long bytes = count * static_cast<long>(sizeof(float));
    const float* const mine = in_.data();
    float* const theirs = came_.data();
    float* const sum = out_.data();
    long sent = 0, received = 0;
    for (long added = 0; sent < bytes || received < bytes;) {
      if (sent < bytes)
        sent += moved(send(link_, reinterpret_cast<const char*>(mine) + sent, std::min(piece, bytes - sent),
                           MSG_DONTWAIT | MSG_NOSIGNAL));
      if (received < bytes)
        received += moved(
            recv(link_, reinterpret_cast<char*>(theirs) + received, std::min(piece, bytes - received), MSG_DONTWAIT));
      const long whole = received / static_cast<long>(sizeof(float));
      for (long i = added; i < whole; ++i) sum[i] = mine[i] + theirs[i];
      added = whole;
    }
  }
  static long moved(ssize_t result) {
    if (result == 0) fail("the other rank is gone");
    if (result < 0 && errno != EAGAIN) fail("the link");
    return std::max<long>(result, 0);
  }

  int rank_, link_;
  std::vector<float> in_, out_, came_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  Floor floor(std::atoi(argv[3]), argv[4]);
  bench::serve(floor, argv[1], argv[2]);
}
