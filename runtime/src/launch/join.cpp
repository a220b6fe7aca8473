// A process as a rank: of the job that started it, or alone.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "control/control.h"
#include "launch/bootstrap.h"
#include "launch/foreign_job.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "meshrt/threads.h"
#include "system/host_name.h"
#include "system/tell.h"
#include "transport/hosts.h"
#include "transport/shared.h"
#include "transport/ucx.h"

namespace meshrt {

namespace {

// What a process has of its job: the launcher's socket (none: alone) and the memory of the host's ranks (none: over
// UCX).
struct Job {
  std::shared_ptr<Control> control;
  std::shared_ptr<SharedMemory> memory;

  void fail(int32_t cause, const char* what) const {
    if (!control || !control->failed(cause, what)) tell("error: {}\n", what);
    // The launcher knows the cause; now the others may stop.
    if (memory) memory->header().aborted.store(1, std::memory_order_release);
  }
};

Job find_job() {
  Job job;
  if (const int socket = Control::inherited_socket(); socket >= 0) {
    // The launcher sets this for its children; behind a shell script the rank is a grandchild.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    job.control = std::make_shared<Control>(Descriptor(socket));
  } else if (const auto bootstrap = find_bootstrap()) {
    job.control = std::make_shared<Control>(join_foreign_job(*bootstrap));
  } else {
    job.memory = std::make_shared<SharedMemory>(1);
    return job;
  }
  const Welcome& welcome = job.control->welcome();
  if (welcome.carrier != Carrier::ucx)
    job.memory = std::make_shared<SharedMemory>(welcome.placement.neighbours(welcome.rank), job.control->segment_file(),
                                                job.control->arena_file());
  return job;
}

// Keeps the control socket as long as the rank, and tells the launcher when a rank of join_job has come to its end. A
// launcher that is gone ends the waits: nobody else would tell of a rank that died.
class JoinedTransport : public SharedTransport {
 public:
  JoinedTransport(int rank, const Job& job, const WaitPolicy& policy)
      : SharedTransport(rank, job.memory, policy, [control = job.control] { control->look(); }),
        control_(job.control) {}
  ~JoinedTransport() override {
    if (control_ && std::uncaught_exceptions() == 0) control_->finished();
  }

 private:
  std::shared_ptr<Control> control_;
};

std::unique_ptr<Transport> make_transport(const Job& job) {
  const Welcome& welcome = job.control->welcome();
  const int local = static_cast<int>(welcome.placement.neighbours(welcome.rank).size());
  const WaitPolicy policy = wait_policy(local * threads_of_rank(), welcome.cpus);
  switch (welcome.carrier) {
    case Carrier::arena: return std::make_unique<JoinedTransport>(welcome.rank, job, policy);
    case Carrier::ucx: return std::make_unique<UcxTransport>(job.control, policy);
    case Carrier::both: break;
  }
  return std::make_unique<HostsTransport>(job.control, job.memory, policy);
}

std::unique_ptr<Rank> make_rank(const Job& job) {
  if (!job.control) {
    auto alone = std::make_unique<SharedTransport>(0, job.memory, wait_policy(1, 1));
    alone->set_placement(Placement::together(1, host_name()));
    alone->set_cpus(allowed_cpus());
    return std::make_unique<Rank>(0, 1, std::move(alone));
  }
  const Welcome& welcome = job.control->welcome();
  auto transport = make_transport(job);
  transport->set_placement(welcome.placement);
  transport->set_cpus(welcome.cpus);
  return std::make_unique<Rank>(welcome.rank, welcome.ranks(), std::move(transport));
}

}  // namespace

bool in_job() { return Control::inherited_socket() >= 0 || find_bootstrap(); }

std::unique_ptr<Rank> join_job() { return make_rank(find_job()); }

int run_rank(const std::function<int(Rank&)>& body) {
  Job job;
  try {
    job = find_job();
    return body(*make_rank(job));
  } catch (const Aborted& aborted) {
    return exit_code(aborted.cause);
  } catch (const Failure& failure) {
    job.fail(static_cast<int32_t>(failure.cause), failure.what());
    return exit_code(failure.cause);
  } catch (const std::exception& error) {
    job.fail(internal_error, error.what());
    return 70;
  }
}

}  // namespace meshrt
