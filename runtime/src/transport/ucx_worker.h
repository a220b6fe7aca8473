// ucx_worker.h: tagged messages between the ranks of a job over UCX. Every receive names its sender and its place in
// the program, and is posted before it is needed, so nothing is matched by chance. Long ones to other hosts go over TCP
// past UCX (tcp.h), where there is no RDMA.
//
// Endpoints within a host have no error handling: UCX 1.13 with it drops shared memory without a word, and finds a dead
// peer late or never. Between hosts they have it, and a lost connection is told by who waits for it; deaths are the
// launcher's to find.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "control/control.h"
#include "system/wait.h"
#include "transport/tcp.h"
#include "transport/ucx_library.h"

namespace meshrt {

class UcxWorker {
 public:
  /// Meets the other ranks through the launcher.
  UcxWorker(std::shared_ptr<Control> control, const WaitPolicy& policy);
  /// Parts from them: waits until all ranks have come so far. After a failure it lets everything lie.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  /// Messages under way. A buffer belongs to UCX until finished() is true. What could not be posted is told by
  /// progress(): what other messages say of the peer may explain it.
  class Batch {
   public:
    bool finished() const { return requests_.empty() && over_tcp_.empty() && refused_ == UCS_OK; }

   private:
    friend class UcxWorker;
    std::vector<void*> requests_;
    std::vector<std::shared_ptr<TcpMessage>> over_tcp_;
    ucs_status_t refused_ = UCS_OK;
    const char* action_ = nullptr;  // that was refused
  };

  void set_timeout(double seconds) { policy_.set_timeout(seconds); }

  void send(Batch& batch, int rank, uint64_t tag, const void* data, size_t bytes);
  void receive(Batch& batch, int rank, uint64_t tag, void* data, size_t bytes);
  /// Moves messages along and drops what has finished from the batch.
  void progress(Batch& batch);

  /// Throws Failure (Cause::peer_died) when the connection to a rank of another host is lost.
  void check_connected(int rank) const;

  Control& control() const { return *control_; }

 private:
  void check(ucs_status_t status, const char* action, Cause cause = Cause::environment) const;
  static void add(Batch& batch, ucs_status_ptr_t request, const char* action);
  ucp_ep_h endpoint(int rank);
  bool goes_over_tcp(int rank, size_t bytes) const {
    return tcp_.reaches(rank) && static_cast<int64_t>(bytes) >= Tcp::least_bytes;
  }

  UcxLibrary ucx_;
  std::shared_ptr<Control> control_;
  Tcp tcp_;
  WaitPolicy policy_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<std::string> addresses_;
  std::vector<ucp_ep_h> endpoints_;   // made at the first message
  std::vector<ucs_status_t> states_;  // of the endpoints, as UCX tells them
};

}  // namespace meshrt
