// tcp.h: long messages between the ranks of several hosts that have no RDMA. UCX moves these over TCP through buffers
// of its own, which costs a copy at either end; here each pair of ranks has a connection for each direction
// (tcp_stream.h). Messages of a direction come one after the other. One that comes before its receive is posted is put
// aside in memory, but only while this rank waits for another one of the same sender: until then the connection stands
// still, and a send may stay unfinished, as UCX's longest messages do.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp_stream.h"

namespace meshrt {

class Tcp {
 public:
  /// Shorter messages travel over UCX. Both ends know how long a message is.
  static constexpr int64_t least_bytes = int64_t(64) << 10;

  Tcp() = default;
  /// Listens at a free port of `address`, a number of this host, within UCX_TCP_PORT_RANGE where that is set; an empty
  /// one, or one where it cannot listen: not at all, and then it has no address.
  Tcp(const std::string& address, int rank);

  /// What others must know to send here, in bytes, the secret of its hellos first: not to be printed. Empty where they
  /// cannot.
  std::string address() const;
  /// Takes what all ranks say of themselves. Those of this rank's own host, or that have no address, are not reached;
  /// none are where this one has no address.
  void meet(const std::vector<std::string>& addresses, const std::vector<int>& host_of_rank);

  bool reaches(int rank) const { return !peers_.empty() && peers_[rank] != nullptr; }
  std::shared_ptr<TcpMessage> send(int rank, uint64_t tag, const void* data, int64_t bytes);
  std::shared_ptr<TcpMessage> receive(int rank, uint64_t tag, void* data, int64_t bytes);
  /// Moves messages along. Costs nothing while none are posted. Throws Failure (Cause::environment)
  /// where this process may open no more connections.
  void progress();
  /// Why messages to and from a rank can no longer move; empty while they can.
  std::string why_lost(int rank) const;

 private:
  struct Peer {
    SendingStream out;
    ReceivingStream in;
    bool active = false;
  };

  Peer& active(int rank);
  void move(Peer& peer);
  void accept_some();

  int rank_ = 0;
  uint64_t secret_ = 0;
  Descriptor listening_;
  std::string listens_at_;                    // the socket's address in its bytes
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::vector<TcpNewcomer> newcomers_;
  std::vector<int> active_;  // the ranks to and from which messages are under way
};

}  // namespace meshrt
