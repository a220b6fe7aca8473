// driver.h: the loop around a program, the same for emitted programs and for the interpreter: memory, initial values,
// batches, steps, validation, log.
#pragma once
#include <cstdio>

#include "meshrt/log.h"
#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "meshrt/run_file.h"
#include "meshrt/tensor.h"

namespace meshrt {

class Program;  // meshrt/program.h

struct DriverOptions {
  std::FILE* out = stdout;  ///< where rank 0 tells its progress
  Color color = Color::automatic;
  std::string run_folder = "";      ///< of this run, if the run file names none: "none" for none; empty: counted ones
  std::string runs = "none";        ///< the folder of counted ones; "none": none
  std::string program_folder = "";  ///< where the program lies, and what meshc has written about it
};

/// The parameters of a model that is used and not trained.
struct ModelFiles {
  std::vector<std::string> paths;  ///< safetensors files or checkpoints; none: the latest of `checkpoint.dir`
  std::vector<std::string> fresh;  ///< paths and patterns of parameters that begin as the spec says all the same
  std::string names;               ///< file that says what the tensors are called there; empty: as here
};

/// Ranks that the mesh of a program has; 1 without a mesh.
int mesh_size(const ProgramInfo& info);

/// Gives the program its memory: checks the number of ranks and what the host may use, allocates, binds; tells which
/// rank runs on which host. Throws Failure: usage (the job has another number of ranks than the mesh), memory (it does
/// not fit, see memory_limits.h).
void prepare(Rank& rank, Program& program);

/// Throws Failure (Cause::data) when a run file does not say how many steps, or watches what the program does not give:
/// better told before ranks start.
void check_trainable(const ProgramInfo& info, const RunFile& run);

/// Throws Failure (Cause::data) where `data`, `validation` or `output` of a run file do not fit the program: names, and
/// unless files may lack the shapes of what they hold. Better told before the program is compiled: `tensors` are those
/// of any rank, without memory. Text that has to be tokenized first is left to the run.
void check_fits(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run, NamedFiles files);

/// The same for what `evaluate` or `predict` reads: throws Failure (Cause::data, or usage where no parameters are
/// named) when the run file names no source for an input that the entry reads, or one that does not fit it.
void check_evaluates(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run, const ModelFiles& files);
void check_predicts(const ProgramInfo& info, std::span<Tensor> tensors, const RunFile& run, const ModelFiles& files);

/// check_trainable, prepare, initial values, then train.steps steps of the run file. Every rank of the job calls it
/// with the same run file; `program` is freshly made. Returns 0, or throws a Failure: data (a mistake in the run file
/// or its data), numeric (the loss is not finite), or what a collective throws.
int train(Rank& rank, Program& program, const RunFile& run, const DriverOptions& options);

/// Metrics over an evaluation set without training: what `validation` names, or `data` where the run file has no
/// `validation` or the command line names files of `data`. Rank 0 tells them, or prints them as JSON.
int evaluate(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, bool json,
             const DriverOptions& options);

/// The values that the program was compiled to predict, of every sample of `data` in order, as npy files in `folder`:
/// DIR/logits.npy, whose first dim counts samples. No more than a batch is in memory. Throws Failure: usage (the
/// program predicts nothing), environment (a file cannot be written).
int predict(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, const std::string& folder,
            bool json, const DriverOptions& options);

/// The entry that predict calls; its outputs are called "predict.NAME".
inline constexpr const char* predict_entry = "predict";

/// Throws Failure (Cause::usage) for a program that predicts nothing.
void check_predicts(const ProgramInfo& info);

/// prepare, one all-reduce over all ranks, and the first batch when the run file names data. Rank 0 says that it
/// worked.
int dry_run(Rank& rank, Program& program, const RunFile& run, const DriverOptions& options);

/// What a program is, for a person or as one JSON object: spec, dims, mesh, memory, metrics.
std::string info_text(const ProgramInfo& info);
std::string info_json(const ProgramInfo& info);

}  // namespace meshrt
