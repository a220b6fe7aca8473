// outputs.h: `output` of the run file: tensors that are written as npy files while the program runs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "meshrt/run_file.h"
#include "meshrt/tensor.h"

namespace meshrt {

class Program;  // meshrt/program.h

/// Throws Failure (Cause::data), with the line of the run file, for a name that the spec does not put out, and for a
/// file that is not named, would be that of another output, or is there and no array.
void check_outputs(const ProgramInfo& info, const RunFile& run);

/// Those that a run never writes, each with the reason.
std::vector<std::string> never_written(const RunFile& run);

class Outputs {
 public:
  /// check_outputs, too. Throws Failure (Cause::environment) where rank 0 could not write.
  Outputs(Rank& rank, Program& program, const RunFile& run);

  /// After step `step`: writes what is due. Without `every` that is once, after the last step. Collective.
  void write(int64_t step, bool last) const;

 private:
  struct Written {
    const Tensor* tensor;
    int64_t every;     // 0: after the last step
    std::string file;  // with {step}, perhaps
  };

  Rank& rank_;
  std::vector<Written> written_;
};

}  // namespace meshrt
