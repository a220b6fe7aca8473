// pipeline.h: a rank's row of a pipeline's schedule, carried out: what the rank computes and which messages it sends
// and posts, one action after the other, as `meshc schedule` prints them. The program has the row as a table and one
// function that computes.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshrt/channel.h"

namespace meshrt {

enum class StageWork : uint8_t {
  forward,          ///< F
  recompute,        ///< R: the forward pass again, from what came into the stage
  backward,         ///< B: I and W in one
  input_gradient,   ///< I: the gradient of what came into the stage
  weight_gradient,  ///< W: the gradients of its parameters
  send_forward,     ///< to the next stage
  receive_forward,  ///< from the stage before: posts a buffer
  send_backward,
  receive_backward
};

struct PipelineAction {
  StageWork work;
  int32_t stage, micro_batch;
  bool keeps = false;  ///< of an F without R in a row that has R: what R would leave is left by it

  /// Not 0.
  constexpr uint64_t word() const {
    return (uint64_t{1} + static_cast<uint64_t>(work)) << 56 | static_cast<uint64_t>(stage & 0xffffff) << 32 |
           static_cast<uint32_t>(micro_batch);
  }
};

/// "1F3", "0SEND_B2".
std::string to_text(const PipelineAction&);
/// The same from word(); "" for what is none.
std::string action_text(uint64_t word);
/// A row as such texts with spaces in between: "0F0 0SEND_F0 0RECV_B0 0B0". Throws Failure (Cause::usage) that names
/// what is no action.
std::vector<PipelineAction> parse_row(std::string_view);

/// The channels of one stage of this rank, each with the values that go over it: to and from the ranks of the stages
/// beside it. Empty where there is none, or that stage is the rank's own.
struct StageChannels {
  std::vector<ChannelEnd> forward_in, forward_out, backward_in, backward_out;
};

/// Runs the actions of a row in their order, and returns when all that was sent is taken. `stages` is by stage of the
/// whole pipeline. Before it calls `compute` for F, B or I, what comes into the stage is there, and the buffers that
/// the stage hands on are free; before it posts a receive they are too, as a stage may hand on the buffer into which it
/// receives. Throws what `compute` throws, and Failure as collectives do; Cause::usage for a message
/// of a stage without channels.
void run_row(std::span<const PipelineAction> row, std::span<StageChannels> stages,
             const std::function<void(const PipelineAction&)>& compute);

/// Stages one after the other; by default all.
struct StageRange {
  int first = 0, last = std::numeric_limits<int>::max();
};

/// Where a rank has a value that its stages hand on: so many slots for each of them, one behind the other, those of its
/// first stage in front. Micro-batch k has slot k % slots.
struct HandedOn {
  void* first;
  int slots;
};

/// One rank's part of a pipeline over an axis: its row, and the values that its stages hand on. Made when a program is
/// bound, without communication; all ranks describe the same values in the same order.
class Pipeline {
 public:
  Pipeline() = default;
  /// `rows`: those of all coordinates of the axis, one after the other, which say where each stage lies. Throws Failure
  /// (Cause::usage) for rows in which a stage lies nowhere, or on two ranks.
  Pipeline(Rank&, const Axis& axis, int micro_batches, std::span<const char* const> rows);

  /// A value [count] that a stage has from the one before and, when F is over, gives to the next one, from the same
  /// slot. Between two stages of one rank it is copied when the reader begins. `among`: the stages that have it.
  void hand_forward(Site, HandedOn, int64_t count, Type, StageRange among = {});
  /// That it has from the next one and gives to the one before, when B or I is over.
  void hand_backward(Site, HandedOn, int64_t count, Type, StageRange among = {});

  /// As run_row.
  void run(const std::function<void(const PipelineAction&)>& compute);

 private:
  struct Value {
    Site site;
    HandedOn at;
    int64_t count;
    Type type;
    bool back;  // from later stages to earlier ones
    int64_t bytes() const { return count * static_cast<int64_t>(size_of(type)); }
  };
  void hand(const Value&, StageRange among);
  void connect(std::vector<ChannelEnd>& ends, int from, int to, int number, const Value&);
  bool is_own(int stage) const;
  std::byte* buffers_of(const Value&, int stage) const;
  void take_from_own(const PipelineAction&) const;

  Rank* rank_ = nullptr;
  Axis axis_{1, 1};
  int micro_batches_ = 0, coordinate_ = 0;
  std::vector<int> home_;                        // by stage: its coordinate
  std::vector<int> place_;                       // by stage: which of its rank's it is
  std::map<std::pair<int, int>, int> channels_;  // by sender and receiver, coordinates: how many there are
  std::vector<PipelineAction> row_;
  std::vector<StageChannels> stages_;               // by stage; those of other ranks are empty
  std::vector<std::pair<int, Value>> handed_over_;  // by the stage that has it from another one of this rank
};

}  // namespace meshrt
