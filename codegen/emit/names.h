// names.h: what things are called in the emitted program: the struct, dims and local extents, buffers, loop variables.
// Names come from the spec; a keyword, and what a header may have defined as a macro, gets a trailing underscore, a
// name that is taken a number. Records which extents the emitted code uses, so that only those are declared.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/program/extent.h"
#include "codegen/program/program.h"

namespace mesh {

/// What the optimizer keeps for one parameter: "wq_state" with the fields "moment1" and "moment2".
struct OptimizerState {
  std::string name;
  std::vector<std::string> fields;
  std::vector<BufferId> tensors;
};

class Names {
 public:
  explicit Names(const Program&);

  /// The struct of the program: "Gpt".
  const std::string& model() const { return model_; }
  /// The function of an entry: "train"; of one that carries sums from call to call also "evaluate_carried" and
  /// "evaluate_finish".
  const std::string& entry(size_t index) const { return entries_[index]; }
  /// The dim's global size, a constexpr: "embed".
  std::string size(DimId);
  /// How many indices of the dim this rank holds: "embed", "batch_per_data".
  std::string extent(const LocalDim&);
  /// The largest extent of all ranks, a constexpr: "embed", "batch_per_data", "vocab_per_model_max".
  std::string largest(const LocalDim&);
  /// The first global index that this rank holds of a dim without margins: "0", "batch_per_data_begin".
  std::string begin(const LocalDim&);
  /// The list of global indices that this rank holds of a dim that it does not hold in order.
  std::string indices(const LocalDim&);
  /// Product of extents: "batch_per_data * seq"; "1" of none.
  std::string product(std::span<const LocalDim>);

  const std::string& buffer(BufferId id) const {
    const auto other = substitutes_.find(storage(program_, id));
    return other == substitutes_.end() ? buffers_[id.index] : other->second;
  }
  /// Gives a buffer another name, that of a function's argument, until it is given an empty one.
  void substitute(BufferId id, const std::string& name) {
    if (name.empty()) substitutes_.erase(id);
    else substitutes_[id] = name;
  }
  /// Whether a buffer is a function's argument: of one with slots the slot that a call hands over.
  bool is_argument(BufferId id) const { return substitutes_.contains(storage(program_, id)); }
  /// How many loops index a buffer as a meshrt::Stack: 1 of equal slices that the turns of one loop index, 2 of such
  /// stacks by the turns of another; 0: it is none.
  size_t stack_depth(BufferId id) const {
    const auto depth = stacks_.find(storage(program_, id));
    return depth == stacks_.end() || substitutes_.contains(depth->first) ? 0 : depth->second;
  }
  /// Whether a buffer is a variable: a single number of this rank alone, or a function's argument that is one.
  bool is_number(BufferId id) const {
    const BufferId held = storage(program_, id);
    return substitutes_.contains(held) ? program_.buffer(held).dims.empty() : numbers_.contains(held);
  }
  /// The optimizer's state by parameter, where it is alike for all of them and more than one tensor each.
  const std::vector<OptimizerState>& states() const { return states_; }
  const std::string& index(DimId id) const { return indices_[id.index]; }
  const std::string& turn(LoopId id) const { return index(loop_dims_[id.index]); }
  /// The slot of a turn: "l_slot".
  const std::string& turn_slot(LoopId);
  DimId loop_dim(LoopId id) const { return loop_dims_[id.index]; }
  /// The variable of loops over several dims as one, outermost first: "i", "j", "k".
  const std::string& flat_index(size_t depth) const { return flat_[std::min(depth, flat_.size() - 1)]; }
  /// "mesh::data" for an axis.
  std::string axis(AxisId) const;
  /// Reserves a name of the program's scope: `wanted`, or with a number where it is taken.
  std::string reserve(std::string_view wanted);
  bool taken(const std::string& name) const { return taken_.contains(name); }

  // What has been asked for, in a fixed order: what the program must declare.
  const std::set<DimId>& used_sizes() const { return used_sizes_; }
  struct LocalOrder {
    bool operator()(const LocalDim& a, const LocalDim& b) const {
      return std::tie(a.dim, a.placement) < std::tie(b.dim, b.placement);
    }
  };
  struct Use {
    bool begin = false, largest = false, extent = false, indices = false;
  };
  const std::map<LocalDim, Use, LocalOrder>& used_parts() const { return used_parts_; }
  /// "batch_per_data" of a dim that is split.
  const std::string& part(const LocalDim&);
  /// "x_per_rows_wide" of a dim with margins.
  const std::string& wide(const LocalDim&);

 private:
  std::string reserve_extent(const std::string& wanted);
  void find_stacks();
  void find_numbers();
  void find_states();

  const Program& program_;
  std::set<std::string> taken_;
  std::string model_;
  std::vector<std::string> entries_, sizes_, buffers_, indices_, axes_, flat_;
  std::vector<DimId> loop_dims_;
  std::map<std::string, std::string> turn_slots_;  // by what the turn is called
  std::map<BufferId, size_t> stacks_;
  std::set<BufferId> numbers_;
  std::vector<OptimizerState> states_;
  std::map<BufferId, std::string> substitutes_;
  std::set<DimId> used_sizes_;
  std::map<LocalDim, Use, LocalOrder> used_parts_;
  std::map<std::tuple<DimId, std::vector<AxisId>, Deal>, std::string> parts_;
  std::map<LocalDim, std::string, LocalOrder> wide_;
};

/// A path or name as a C++ identifier: "layer.attn.wq" -> "layer_attn_wq"; a keyword, and what may be a
/// macro, gets a trailing underscore.
std::string identifier(std::string_view text);
/// "float" for f32, ...
std::string cpp_type(Type);

}  // namespace mesh
