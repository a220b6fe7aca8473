// program_info.h: what a program is, the same on every rank: names, sizes, mesh, entries, memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "meshrt/rank_memory.h"

namespace meshrt {

struct MeshAxis {
  std::string name;
  int size, stride;
  bool within_node = false;  ///< its ranks must run on one host
};

/// One thing that a program does when it is called. Every program has "train" and "evaluate".
struct EntryInfo {
  std::string name;    ///< "train", "evaluate", "begin.wave"
  size_t results = 0;  ///< how many numbers it gives, the same on all ranks: "train" those of ProgramInfo::metrics,
                       ///< then of `watched`; "evaluate" those of `metrics`
  std::string begins = {};  ///< path of the state of which it computes the first value, of several the first; of most
                            ///< entries empty
  std::vector<std::string> unread = {};  ///< inputs that an entry which only looks at the model does without
  int64_t after_steps = 0;               ///< not 0: a step whose number is a multiple of it is followed by a call
  std::string samples = {};              ///< the dim of its samples, where a training step takes its inputs whole
};

/// How a training step goes through the stages of a pipeline.
struct PipelineInfo {
  std::string axis = {},
              schedule = {};  ///< the mesh axis of its stages and the name of its schedule; empty: there is none
  int micro_batches = 0;
  int in_flight = 0;  ///< micro-batches at most that a stage holds something of
};

struct ProgramInfo {
  std::string name, spec, spec_hash, layout, mesh_name, machine, precision;
  bool bf16 = false;       ///< it has products or attention of bf16
  bool f16 = false;        ///< and of f16
  bool convolves = false;  ///< it has convolutions
  std::vector<MeshAxis> mesh;
  PipelineInfo pipeline;
  std::vector<std::pair<std::string, int64_t>> dims;
  std::string sample_dim;                ///< the dim of which a batch is made; empty without `minimize`
  std::vector<std::string> sample_dims;  ///< what it is in the input tensors, slowest first: itself, or several
                                         ///< neighbours where a step takes samples in parts
  std::vector<std::string> metrics;      ///< names; the loss first
  std::vector<std::string> outputs;      ///< names of the tensors that a run file may ask to be written
  struct Generation {
    std::string input, along;  ///< what is continued, and the dim along which; empty where nothing is
  } generation;
  double rate = 0;        ///< learning rate (or a schedule's peak) written in the spec
  std::string optimizer;  ///< its name; empty without `minimize`
  /// Of the optimizer, with `clip` where it clips; truths as 0 and 1. "lr.cosine.warmup" is one of its rate, but for
  /// what `rate` is; "layer.w:weight_decay", "layer.w:lr.constant.rate" one that a parameter has of its own,
  /// "layer.w:frozen" that it stays as it is (1; "frozen", of all, is 0). Where replicas train apart, "sync" and
  /// "outer.momentum".
  std::vector<std::pair<std::string, double>> settings;
  struct Watched {
    std::string name;     ///< "layer.attn.wq", "grad(layer.attn.wq)", "grad_norm"
    std::string pattern;  ///< the entry of `log.watch` that it matched: "**.wq"; empty: its name
  };
  std::vector<Watched> watched;  ///< norms that a training step gives after its metrics
  std::vector<EntryInfo> entries;
  size_t arena_bytes = 0, own_bytes = 0;  ///< addresses, the same on every rank
  std::vector<std::string> memory_axes;   ///< of the mesh, by which ranks use unlike parts of these; none: all use all
  std::vector<RankMemory> used_memory;    ///< by the coordinates along these axes, the first slowest
  std::vector<std::pair<std::string, int64_t>> memory;  ///< bytes of the largest rank by what they hold
  struct SourceSpan {
    std::string file;
    int line, column;
    std::string text;
  };
  std::vector<SourceSpan> sites;  ///< what Site::id points to
};

/// What a rank uses of its memory.
RankMemory memory_of(const ProgramInfo&, int rank);
/// Of the rank that uses most.
size_t most_memory(const ProgramInfo&);

}  // namespace meshrt
