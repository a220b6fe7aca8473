// start.h: what every way to use a program does before its first batch.
#pragma once
#include <functional>
#include <string>

#include "meshrt/program.h"
#include "meshrt/rank.h"
#include "meshrt/run_file.h"

namespace meshrt {

class Batches;

/// MESHRT_TIMEOUT, which a launcher's --timeout sets, stands over the run file.
void heed_timeout(Rank&, const RunFile&);

/// The first values of states that the spec begins as an expression, but for those that `batches` reads from files, and
/// those that `begins` leaves out.
void begin_states(
    Program&, const Batches&, const StepInput&,
    const std::function<bool(const std::string& path)>& begins = [](const std::string&) { return true; });

}  // namespace meshrt
