// trial.h: a program run for some steps to see where their time goes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "codegen/commands/session.h"

namespace mesh {

/// A folder of its own that is gone with this.
class ScratchFolder {
 public:
  /// Throws meshrt::Failure (Cause::environment) where there is no room for one.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Seconds of a step by what they go to. `nests` are the program's own loops; `waiting` is for other ranks, in
/// collectives and between the stages of a pipeline.
struct StepParts {
  double data = 0, products = 0, attention = 0, nests = 0, collectives = 0, waiting = 0;
  double computing() const { return products + attention + nests; }
  double total() const { return data + computing() + collectives + waiting; }
};

/// The parts by their names, in the order in which they are told.
struct NamedPart {
  const char* name;
  double StepParts::*part;
};
constexpr NamedPart step_parts[] = {{"products", &StepParts::products}, {"attention", &StepParts::attention},
                                    {"nests", &StepParts::nests},       {"collectives", &StepParts::collectives},
                                    {"waiting", &StepParts::waiting},   {"data", &StepParts::data}};

struct CostlyLine {
  std::string place, text;  // "gpt.mesh:32"
  double seconds, share;    // of a step as long as the median
};

struct Trial {
  bool random_data = false;       // in place of files that the run file names
  std::vector<double> seconds;    // of each step, in order
  StepParts parts;                // of rank 0: means over the half of them about the median
  std::vector<StepParts> ranks;   // of all ranks, as in a step of the median; `data` is not known there
  std::vector<CostlyLine> lines;  // of the spec, the costliest first
  int64_t memory = 0, bytes = 0;  // of a rank, and that it sends in a step, as measured
  double median() const;          // of `seconds`
  /// Of all ranks the one that computes longest, and shortest.
  std::pair<size_t, size_t> unlike_ranks() const;
};

/// Steps before the first one that counts: they touch memory, and start what computes and reads beside them.
inline constexpr int64_t warm_up_steps = 3;

/// Builds the program (program_cache.h) and runs it on what write_trial_input (trial_input.h) has written. Nothing
/// where the user ended it. Throws meshrt::Failure as the program ended.
std::optional<Trial> try_steps(const Session&, const SpecOptions&, const Compiled&, const ScratchFolder&);

}  // namespace mesh
