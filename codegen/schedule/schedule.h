// schedule.h: what each rank of a pipeline does in a step: a list of actions a rank, without a model. Stages are
// counted along the model from 0; a rank has one stage or more (its chunks).
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh {

enum class ActionKind : uint8_t {
  idle,
  forward,           // F
  recompute,         // R: the forward pass again, from what came into the stage
  backward,          // B: I and W in one
  input_gradient,    // I: the gradient of what came into the stage
  weight_gradient,   // W: the gradients of its parameters
  send_forward,      // activations, to the next stage
  receive_forward,   // from the stage before
  send_backward,     // gradients, to the stage before
  receive_backward,  // from the next stage
  unshard,           // the stage's parameters are gathered over the ranks that hold parts of them
  reshard,           // and only the parts are kept
  reduce_gradient    // the stage's gradients are summed over replicas
};

/// One of a stage for a micro-batch; the last three kinds are of the stage alone.
struct Action {
  ActionKind kind = ActionKind::idle;
  int32_t stage = -1, micro_batch = -1;
  auto operator<=>(const Action&) const = default;
};

/// As PyTorch writes them: "0F1", "2SEND_B0", "1UNSHARD"; idle is "".
std::string to_text(const Action&);
/// A list as these, with spaces in between and without the idle ones: "0F0 0SEND_F0 0RECV_B0 0B0".
std::string row_text(const std::vector<Action>&);
/// Nothing for what is no action.
std::optional<Action> parse_action(std::string_view);

constexpr bool is_computation(ActionKind kind) {
  return kind >= ActionKind::forward && kind <= ActionKind::weight_gradient;
}
constexpr bool is_communication(ActionKind kind) {
  return kind >= ActionKind::send_forward && kind <= ActionKind::receive_backward;
}
/// Gives the gradient that the stage before waits for.
constexpr bool gives_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::input_gradient;
}
/// Needs what the forward pass has kept no longer.
constexpr bool frees_activations(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::weight_gradient;
}

/// What F of a stage leaves to the gradients of a micro-batch: all that they need of it, or what came into the stage
/// alone, of which R computes the rest again; except_last: of all micro-batches but the last.
enum class Remat : uint8_t { none, stage, except_last };

struct PipelineSchedule {
  int32_t stages = 0, micro_batches = 0;
  std::vector<std::vector<Action>> ranks;

  /// -1 for a stage that no rank computes; the first of several ranks.
  std::vector<int> rank_of_stage() const;
  /// The stage that is a rank's number-th, from 0; -1 where it has no more.
  int32_t stage_on(int rank, int32_t number) const;
  bool has_communication() const;
  /// Whether some rank has such an action.
  bool has(ActionKind) const;
  /// Whether each F has its R.
  bool recomputes_all() const;
};

/// Stages one after the other.
struct StageRange {
  int32_t first, last;
  bool has(int32_t stage) const { return first <= stage && stage <= last; }
  auto operator<=>(const StageRange&) const = default;
};

/// What an action of one rank hands to another rank's: F to the F of the next stage, B and I to those of the stage
/// before. The send and the receive that do it; nothing where both stages lie on one rank.
struct Message {
  Action send, receive;
  int to;  // rank
};
std::optional<Message> message_of(const Action&, const std::vector<int>& rank_of_stage);
/// How many of a rank's stages hand something on to another rank, forward or back, that goes among these stages.
int32_t givers_on(int rank, bool forward, const std::vector<int>& rank_of_stage, StageRange);
/// The receive of what the action needs of another rank.
std::optional<Action> receive_for(const Action&, const std::vector<int>& rank_of_stage);

}  // namespace mesh
