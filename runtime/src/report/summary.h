// summary.h: what was predicted of a step, beside what it took.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "report/top_lines.h"

namespace meshrt {

/// What `meshc plan` has said, for the rank that needs most.
struct Predicted {
  double seconds = 0;
  int64_t sent = 0;    ///< bytes of a step
  int64_t memory = 0;  ///< bytes, of the program's two blocks
};

/// From the plan that lies beside the program; nothing where there is none.
std::optional<Predicted> read_prediction(const std::string& plan_json);

/// Over the ranks, the most.
struct Measured {
  double seconds = 0;  ///< a step, without the first
  int64_t sent = 0;    ///< a step
  int64_t memory = 0;  ///< of a rank's own: the program's two blocks, and what the runtime needs beside them
  int64_t libraries = 0, files = 0;           ///< the program and its libraries; data and other files that are mapped
  int64_t copies = 0;                         ///< of a rank's tensors, while a checkpoint of them is written
  int64_t resident = 0;                       ///< of a process at most, all of it
  std::vector<int64_t> memory_of_ranks = {};  ///< each rank's own, as `memory`
};

/// The most of all ranks. Collective; memory is found here, `copies` excepted, bytes that this rank's process has.
Measured most_of_all(Rank& rank, double seconds, int64_t sent, int64_t copies);

/// "step 1.6 ms predicted, 2.0 ms measured · sent ... · memory ..." for people, and as JSON.
std::string summary_text(const std::optional<Predicted>& predicted, const Measured& measured);
std::string summary_json(const std::optional<Predicted>& predicted, const Measured& measured,
                         const std::vector<TopLine>& lines, const ProgramInfo& info);

}  // namespace meshrt
