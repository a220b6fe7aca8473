// injected_faults.h: faults that environment variables ask for, for tests of what becomes of a job that has them.
#pragma once
#include "meshrt/pipeline.h"

namespace meshrt {

/// Whether this call of the rank is left out: MESHRT_SKIP_CALL=RANK:N leaves out its N-th. Counts the calls that it is
/// asked about, of each thread by itself.
bool skips_call(int rank);

/// Sends this process the signal of MESHRT_SIGNAL_AT=RANK:ACTION:SIGNAL ("1:1F3:9") where the rank begins that action
/// of its row.
void signal_at(int rank, const PipelineAction&);

}  // namespace meshrt
