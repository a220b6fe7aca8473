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

/// A thread that moves this rank's collectives along while it computes, where every rank of this host can have a core
/// for one beside those of its threads; null elsewhere, in a job of one rank, and with MESHRT_NO=progress.
std::unique_ptr<ProgressThread> progress_thread(const Rank&);

/// MESHRT_TIMEOUT, which a launcher's --timeout sets, stands over the run file.
void heed_timeout(Rank&, const RunFile&);

/// The first values of states that the spec begins as an expression, but for those that `batches` reads from files, and
/// those that `begins` leaves out.
void begin_states(
    Program&, const Batches&, const StepInput&,
    const std::function<bool(const std::string& path)>& begins = [](const std::string&) { return true; });

}  // namespace meshrt
