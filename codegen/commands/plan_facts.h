// plan_facts.h: what the forms of a plan (text, JSON, a page) have in common: which values, memory and collectives they
// tell of.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/layout/predict.h"

namespace mesh {

struct PlannedTensor {
  std::string name;
  const char* kind;  // input, parameter, optimizer, state, gradient or activation
  ValueId value;
};

/// Stored tensors in order of declaration, gradients, then named values in order of execution.
std::vector<PlannedTensor> planned_tensors(const Graph&);
/// name, kind, type, dims, how it lies, bytes of a rank, where it is made.
nlohmann::ordered_json tensor_json(const ShardedGraph&, const SourceMap&, const PlannedTensor&);

/// Bytes of the largest rank: its peak, and what that is by kind.
nlohmann::ordered_json memory_json(const Program&);
/// Bytes of each rank, by the coordinates on which they depend; null where all take the same.
nlohmann::ordered_json memory_of_ranks_json(const Program&);
/// "by pipe: 132.9 MiB, 53.2 MiB"; "" where all take the same.
std::string memory_of_ranks_text(const Program&);

/// The one that sends most in a step; null where nothing is sent.
const PlannedCollective* largest_collective(const Prediction&);

/// What brings replicas together that train apart; null where there are none.
const Entry* outer_step_of(const Compiled&);

/// What a limit of the budget is at: "12.3 MiB", "none", "2 all_gather".
std::string at_text(const LimitState&);

/// "a rank: 12.3 MiB of 16.0 MiB, fits"
std::string room_text(const Room&);

/// 0 for an unknown one.
uint32_t line_of(const SourceMap&, Span);

/// Whether it stands in the model's own file.
bool is_of_model(const Graph&, Span);

/// Whether line and name leave open which call of a block it is in: a line of another file, a value without a name.
bool needs_call(const Graph&, const PlannedCollective&);

/// "gpt.mesh:46"; where that is needed also the call: "std.nn:7 in layer.norm1", "gpt.mesh:46 in layer.ffn#2".
std::string place_text(const Graph&, const SourceMap&, const PlannedCollective&);

}  // namespace mesh
