// run_folder.h: the folder that a run leaves: what was run, how it went. Rank 0 writes it.
//
//   runs/gpt-0001/run.yaml        the run file with what the command line changed, paths resolved
//   runs/gpt-0001/spec/           the spec and what it imports       } as meshc has put them beside the program
//   runs/gpt-0001/plan.txt .json  what `meshc plan` said of it       }
//   runs/gpt-0001/log.txt         what was printed
//   runs/gpt-0001/metrics.jsonl   metrics; events.out.tfevents.*: the same for TensorBoard
//   runs/gpt-0001/loss.svg        their curve
//   runs/gpt-0001/summary.json    predicted and measured: time, memory, bytes
//   runs/gpt-0001/trace.json      of the steps of `log.trace`
//
// Folders are counted, so none replaces another; a run that goes on from a checkpoint goes on in the folder of the run
// that wrote it. A folder that the user names is used again as it is.
#pragma once
#include <string>

#include "meshrt/program.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// What says that a run is to have no folder.
inline constexpr const char* no_folder = "none";

struct FolderChoice {
  std::string named;            ///< by the user; empty: counted; no_folder: none
  std::string parent = "runs";  ///< of counted ones; no_folder: none
  int64_t resumed = 0;          ///< steps that earlier runs have done
};

/// Finds or makes the folder of a run; empty when there is to be none. Throws Failure (Cause::environment).
std::string make_run_folder(const FolderChoice& choice, const ProgramInfo& info, const RunFile& run);

/// Where it keeps what was printed.
inline std::string log_of_run(const std::string& folder) { return folder + "/log.txt"; }

/// Puts into it what was run. `program_folder` is where the program lies, empty: nowhere.
void describe_run(const std::string& folder, const std::string& program_folder, const RunFile& run);

}  // namespace meshrt
