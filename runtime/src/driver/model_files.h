// model_files.h: parameters and states of another run, or of another origin, in place of the initial ones.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/driver.h"
#include "meshrt/rank.h"
#include "meshrt/run_file.h"
#include "meshrt/tensor.h"

namespace meshrt {

class Program;  // meshrt/program.h

struct LoadedParameters {
  std::string note;                 ///< what the files lack, and have beside it, a line each; empty: nothing
  std::vector<std::string> states;  ///< that they have
};

/// `train.params` in place of the initial parameters, and of states where the files have them. Collective. Throws
/// Failure (Cause::data) as load_tensors does.
LoadedParameters load_parameters(Rank&, Program&, const Train&);

/// What --params names, else the checkpoints of the run file's own run. Throws Failure: usage where there is neither,
/// data where that run has written none yet. None for tensors of which a file would hold none.
std::vector<std::string> paths_of(std::span<const Tensor>, const RunFile&, const ModelFiles&);

/// A model that is used and not trained any more.
struct LoadedModel {
  Moment moment;     ///< of the run that made it; of other files step 0
  std::string from;  ///< where it was found; empty: it has nothing that would be
  std::string note;  ///< what the files lack, and have beside it, a line each; empty: nothing
};

/// Parameters, and states as far as they were saved; others begin as in training. No files: the latest checkpoint of
/// `checkpoint.dir`. Collective. Throws Failure (Cause::data) where a parameter is missing, usage where nothing says
/// where they are.
LoadedModel load_model(Rank&, Program&, const RunFile&, const ModelFiles&);

/// ", with the parameters of ck/step-5", to end a line.
std::string origin_text(const LoadedModel&);

}  // namespace meshrt
