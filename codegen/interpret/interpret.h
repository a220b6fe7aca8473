// interpret.h: a Program executed without C++ in between: the same kernels, collectives, offsets and order of
// operations as the emitted program, so the same numbers bit for bit. One rank of it is an InterpretedProgram
// (interpreted_program.h); `interpret` runs a whole job, ranks as threads of this process, from whole arrays to whole
// arrays.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program/program.h"
#include "meshrt/npy.h"
#include "meshrt/program_info.h"
#include "meshrt/tensor.h"

namespace mesh {

/// What the run needs to know of a program. `sources` may be null: then nothing has a line.
meshrt::ProgramInfo program_info(const Program&, const SourceMap* sources);

/// The tensors that outlive a step or are put out, as a rank holds them, without memory: `Program::tensors` of it.
std::vector<meshrt::Tensor> tensors_of_rank(const Program&, const SourceMap* sources, int64_t rank);

/// A job to interpret. Arrays are whole and in logical order.
struct InterpretRequest {
  const Program& program;
  const SourceMap* sources = nullptr;
  std::map<std::string, meshrt::Array> feeds = {};   // by the input's name: every input needs one
  std::map<std::string, meshrt::Array> stored = {};  // parameters, optimizer and other state by path; the rest begin as
                                                     // the spec says
  uint64_t seed = 1;
  int64_t steps = 1;                // training steps, all on the same feeds
  int64_t first_step = 1;           // the number of the first of them
  int64_t planned_steps = 0;        // for schedules without their own number of steps (train.steps)
  std::string entry = {};           // one call of this entry in place of steps
  int64_t evaluated = 0;            // batches of evaluation after them, on the same feeds; 0: none
  bool ends_at_outer_step = false;  // what follows some steps follows the last one (EntryInfo::after_steps)
  bool keeps_memory = false;        // all of it, after the last step
  bool poison = false;              // memory begins as NaN in place of zeros, so that what nobody has written shows
  // A program that one rank runs in place of `program`, with the same buffers: to see that the others notice.
  const Program* other = nullptr;
  std::optional<int64_t> other_rank = {};
};

struct InterpretResult {
  int exit_code = 0;                             // not 0: a rank failed and has said so on stderr; nothing below is set
  std::map<std::string, meshrt::Array> wanted;   // Program::wanted, in the last step
  std::map<std::string, meshrt::Array> outputs;  // of the model, in the last step, but for stored tensors; of
                                                 // InterpretRequest::entry
  std::map<std::string, meshrt::Array> before;   // inputs, parameters and state before the last step's update, by path
  std::map<std::string, meshrt::Array> after;    // parameters and state after it
  std::vector<std::vector<double>> metrics;      // of each step, in the order of Graph::metrics
  std::vector<double> evaluated;                 // metrics of the evaluation
  std::vector<std::vector<std::byte>> memory;    // of each rank: the arena, then its own

  /// Where copies of one element on several ranks are not the same number: a fault of the program. The tensor or metric
  /// with the largest difference; empty where there is none.
  std::string differing_copies;
  double copies_difference = 0;
};

/// Throws meshrt::Failure (Cause::data) for feeds and stored arrays that do not fit: an input without a feed, unknown
/// names, wrong shapes and types, indices not below their dim's size.
InterpretResult interpret(const InterpretRequest&);

}  // namespace mesh
