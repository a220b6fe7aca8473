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
//   runs/gpt-0001/flight/         the last calls of each rank, see flight_recorder.h; locked while the run lives
//
// Folders are counted, so none replaces another; a run that goes on from a checkpoint goes on in the folder of the run
// that wrote it. When a run begins in a folder that the user names and that an earlier run has filled, what that one
// has told and measured is moved to earlier-0001 within it, then earlier-0002 and so on.
#pragma once
#include <string>

#include "meshrt/program_info.h"
#include "meshrt/run_file.h"
#include "system/folder_lock.h"

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

/// Keeps others out of a run's folder. Throws Failure (Cause::environment) when another run writes into it.
FolderLock lock_run_folder(const std::string& folder);

/// Moves what an earlier run has left in this folder to one within it; what belongs to the program stays where this is
/// the program's folder too. Returns the new one; empty: there was no run. Throws Failure (Cause::environment).
std::string set_aside_earlier(const std::string& folder, const std::string& program_folder);

/// Where it keeps what was printed.
inline std::string log_of_run(const std::string& folder) { return folder + "/log.txt"; }

/// Puts into it what was run. `program_folder` is where the program lies, empty: nowhere. What cannot be written is
/// told on stderr; only a run that does not go on from another and cannot write its run.yaml fails, with
/// Cause::environment.
void describe_run(const std::string& folder, const std::string& program_folder, const RunFile& run, bool resumed);

}  // namespace meshrt
