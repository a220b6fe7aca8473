// program.h: what the driver (src/driver: run file, data, steps, log) needs to know of a program and what it calls. An
// emitted program and the interpreter both are one of these.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "meshrt/instructions.h"
#include "meshrt/rank.h"
#include "meshrt/types.h"

namespace meshrt {

/// A dim of a tensor as one rank holds it: [begin, end) of `size`. Local memory is row-major over end - begin.
struct LocalDim {
  std::string name;
  int64_t size, begin, end;
  std::vector<int> axes;  ///< mesh axes that split it, major first, as indices into ProgramInfo::mesh
};

enum class Role { input, parameter, optimizer, state, metric, output };

/// How a parameter begins. Numbers depend only on (seed, path, global index): the same for every layout.
struct Initial {
  enum class Kind { zeros, ones, constant, normal, truncated_normal, uniform } kind = Kind::zeros;
  double a = 0, b = 0;  ///< constant: a; normal: mean a, standard deviation b; uniform: [a, b)
};

/// One named tensor of a program, as this rank holds it.
struct Tensor {
  std::string name;  ///< path: "token", "layer.attn.wq", "layer.attn.wq.moment1"
  Role role;
  Type type;
  int64_t index_bound = -1;    ///< of index(vocab): values lie in [0, bound)
  std::vector<LocalDim> dims;  ///< logical order
  void* data = nullptr;        ///< local elements, row-major in logical order; set by bind
  bool primary = true;         ///< of the copies that replication makes, this rank's counts (is written, is fetched)
  Initial initial;
  int line = 0;  ///< in the spec
  int64_t local_elements() const {
    int64_t n = 1;
    for (const LocalDim& d : dims) n *= d.end - d.begin;
    return n;
  }
};

struct MeshAxis {
  std::string name;
  int size, stride;
  bool within_node = false;  ///< its ranks must run on one host
};

/// What does not depend on the rank.
struct ProgramInfo {
  std::string name, spec, spec_hash, layout, mesh_name, machine, precision;
  std::vector<MeshAxis> mesh;
  std::vector<std::pair<std::string, int64_t>> dims;
  std::string sample_dim;                ///< the dim of which a batch is made; empty without `minimize`
  std::vector<std::string> sample_dims;  ///< what it is in the input tensors, slowest first: itself, or two neighbours
                                         ///< where a step runs by micro-batches
  std::vector<std::string> metrics;      ///< names; the loss first
  std::vector<std::string> outputs;      ///< names of the tensors that a run file may ask to be written
  double rate = 0;                       ///< learning rate (or a schedule's peak) written in the spec
  struct Watched {
    std::string name;     ///< "layer.attn.wq", "grad(layer.attn.wq)", "grad_norm"
    std::string pattern;  ///< the entry of `log.watch` that it matched: "**.wq"; empty: its name
  };
  std::vector<Watched> watched;  ///< norms that a training step gives after its metrics
  size_t arena_bytes = 0, own_bytes = 0;
  std::vector<std::pair<std::string, int64_t>> memory;  ///< bytes of the largest rank by what they hold
  struct SourceSpan {
    std::string file;
    int line, column;
    std::string text;
  };
  std::vector<SourceSpan> sites;  ///< what Site::id points to
};

/// What may change from step to step without compiling again.
struct StepInput {
  int64_t step = 1;   ///< counts from 1
  int64_t steps = 0;  ///< train.steps, for schedules without their own
  double rate = -1;   ///< train.lr in place of the spec's rate or peak; negative: the spec's
  uint64_t seed = 1;
};

/// What an evaluation carries from batch to batch, as this rank holds it: evaluate_step combines it with its batch's.
struct Carried {
  void* data;
  int64_t count;  ///< elements
  Type type;
  Reduce reduce;
};

/// One program on one rank. Calls come from the rank's thread.
class Program {
 public:
  virtual ~Program() = default;
  virtual const ProgramInfo& info() const = 0;
  /// Called once after Rank::allocate: fixes every address. Groups are made here.
  virtual void bind(Rank&) = 0;
  /// This rank's tensors, valid after bind. Inputs are filled by the driver before each step (index types as i32),
  /// without a sample dim before the first one: a step leaves them as they are.
  virtual std::span<Tensor> tensors() = 0;
  /// One optimizer step on the inputs; metrics[i] belongs to info().metrics[i], what follows these to info().watched.
  /// All are the same on all ranks.
  virtual void train_step(const StepInput&, std::span<double> metrics) = 0;
  /// Evaluation over several batches: reset, then a call per batch, then the metrics over all of them (sums and counts
  /// are carried, outer functions applied once).
  virtual void evaluate_reset() = 0;
  virtual void evaluate_step() = 0;
  virtual void evaluate_finish(std::span<double> metrics) = 0;
  /// Adds what evaluate_reset sets and evaluate_step changes to `all`.
  virtual void carried(std::vector<Carried>& all) = 0;
};

/// Fills every parameter and state of `tensors` with its initial values for `seed`.
void initialise(std::span<Tensor> tensors, uint64_t seed);

/// The main function of an emitted program: command line, launch or join, run file, training. Returns the exit code.
/// `make` is called once per rank, and once more for what `--info` tells. Without a run file on the command line the
/// one beside the spec or beside the program, of the same stem, is used. `instructions`: what the calling file is
/// compiled for; on a CPU that lacks some of it nothing of the program is run.
using MakeProgram = std::unique_ptr<Program> (*)();
int run_main(int argc, char** argv, MakeProgram make, const char* instructions = compiled_for);

}  // namespace meshrt
