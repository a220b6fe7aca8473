// start.h: what every way to use a program does before its first batch.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "meshrt/program.h"
#include "meshrt/rank.h"
#include "meshrt/run_file.h"
#include "transport/progress_thread.h"

namespace meshrt {

class Batches;

/// How many ranks the rank's host has, itself included.
int ranks_here(const Rank&);

/// Of a host: what tells whether its ranks can have a core more than they have threads.
struct RankRoom {
  int ranks, threads;  ///< on this host; of each
  int cpus;            ///< that the ranks of the host may use together
  int own_cpus;        ///< that this one may use; where they are fewer, others have other ones
  int own_cores;       ///< and the cores that these are threads of
};
bool has_core_for_progress(const RankRoom&);

/// A thread that moves this rank's collectives along while it computes, where every rank of this host can have a core
/// for one; null elsewhere, in a job of one rank, and with MESHRT_NO=progress.
std::unique_ptr<ProgressThread> progress_thread(const Rank&);

/// MESHRT_TIMEOUT, which a launcher's --timeout sets, stands over the run file.
void heed_timeout(Rank&, const RunFile&);

/// The first values of states that the spec begins as an expression, but for those that `batches` reads from files, and
/// those that `begins` leaves out.
void begin_states(Program&, const Batches&, const StepInput&,
                  const std::function<bool(const std::string& path)>& begins);

}  // namespace meshrt
