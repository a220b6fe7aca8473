// load.h: a program's tensors from whole tensors on disk, whatever layout and precision wrote them.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "meshrt/rename_map.h"
#include "meshrt/tensor.h"

namespace meshrt {

/// What of a program is read: all that a run goes on from; parameters, and states as far as they were saved, of a model
/// that is used, or that is trained further.
enum class Loaded { run, model, parameters };

struct LoadOptions {
  Loaded what = Loaded::run;
  bool partial = false;                 ///< what is missing keeps its numbers, what is unexpected is left
  RenameMap names;                      ///< what tensors are called in the file
  std::vector<std::string> fresh = {};  ///< paths and patterns of tensors that keep their numbers, saved or not
};

/// What was not found, not used, and not looked for.
struct Unmatched {
  std::vector<std::string> missing, unexpected, fresh;
  /// States that are missing: Loaded::model does without those of files that no run has written, Loaded::parameters
  /// without any; and those of another shape, which Loaded::parameters leaves.
  std::vector<std::string> states = {}, unfit = {};
  /// What an optimizer keeps of no parameter, as the scale of a loss. A run may begin to have it, or cease to.
  std::vector<std::string> begun = {}, ceased = {};
};

/// Sets the tensors from those in `saved`; floats are rounded to the tensor's type. Each rank reads its own part, and
/// what it vouches for is checked against the hashes of the manifest. Collective. Throws Failure (Cause::data): before
/// anything is changed, with all tensors that are missing, unexpected, or of another shape or kind; and after reading,
/// with those that are damaged.
Unmatched load_tensors(Rank& rank, const ProgramInfo& info, std::span<Tensor> tensors, const SavedTensors& saved,
                       const LoadOptions& options);

}  // namespace meshrt
