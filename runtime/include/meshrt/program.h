// program.h: a program on one rank, as the driver (src/driver: run file, data, steps, log) calls it. An emitted program
// and the interpreter both are one of these. What it is made of has headers of its own: program_info.h, tensor.h,
// step_input.h.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "meshrt/instructions.h"
#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "meshrt/step_input.h"
#include "meshrt/tensor.h"
#include "meshrt/types.h"

namespace meshrt {

/// What an entry carries from call to call, as this rank holds it: each call combines it with its batch's.
struct Carried {
  void* data;
  int64_t count;  ///< elements
  Type type;
  Reduce reduce;
};

/// One program on one rank. Calls come from the rank's thread, the same calls in the same order on all ranks. An entry
/// is known by its place in info().entries.
class Program {
 public:
  virtual ~Program() = default;
  virtual const ProgramInfo& info() const = 0;
  /// Called once after Rank::allocate: fixes every address. Groups are made here.
  virtual void bind(Rank&) = 0;
  /// This rank's tensors, valid after bind. Inputs are filled by the driver before each call that reads them (index
  /// types as i32), without a sample dim before the first one: a call leaves them as they are. Outputs are there until
  /// another entry is called.
  virtual std::span<Tensor> tensors() = 0;
  /// One call: an optimizer step, a batch of evaluation. Gives EntryInfo::results numbers; an entry that carries sums
  /// from call to call gives them in `finish` alone.
  virtual void run(size_t entry, const StepInput&, std::span<double> results) = 0;
  /// Adds what the entry carries from call to call to `all`; nothing for most.
  virtual void carried(size_t entry, std::vector<Carried>& all) = 0;
  /// After the last call of an entry that carries something: its results over all of them.
  virtual void finish(size_t entry, std::span<double> results) = 0;
};

/// The place of the entry of that name; std::out_of_range for a program that has none.
size_t entry_of(const ProgramInfo&, std::string_view name);

/// What the program is to whoever reads the entry's inputs: by samples, also where a training step takes them whole.
ProgramInfo as_entry_reads(const ProgramInfo&, std::string_view name);

/// What an entry carries is as before its first call: 0 for sums, the neutral number for extremes.
void reset(Program&, size_t entry);

/// One call by itself: over one batch, whatever the entry carries.
void call(Program&, size_t entry, const StepInput&, std::span<double> results);

/// The main function of an emitted program: command line, launch or join, run file, training. Returns the exit code.
/// `make` is called once per rank, and once more for what `--info` tells. Without a run file on the command line the
/// one beside the spec or beside the program, of the same stem, is used. `instructions`: what the calling file is
/// compiled for; on a CPU that lacks some of it nothing of the program is run.
using MakeProgram = std::unique_ptr<Program> (*)();
int run_main(int argc, char** argv, MakeProgram make, const char* instructions = compiled_for);

}  // namespace meshrt
