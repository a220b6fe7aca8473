// pipeline.h: a rank's row of a pipeline's schedule, carried out: what the rank computes and which messages it sends
// and posts, one action after the other, as `meshc schedule` prints them. The program has the row as a table and one
// function that computes.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
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

/// The channels of one stage of this rank, each with the values that go over it: to and from the ranks of the stages
/// beside it. Empty where there is none, or that stage is the rank's own.
struct StageChannels {
  std::vector<ChannelEnd> forward_in, forward_out, backward_in, backward_out;
};

/// Runs the actions of a row in their order, and returns when all that was sent is taken. `stages` is by stage of the
/// whole pipeline. Before it calls `compute` for F, B or I, what comes into the stage is there, and the buffers that
/// the stage hands on are free. Throws what `compute` throws, and Failure as collectives do; Cause::usage for a message
/// of a stage without channels.
void run_row(std::span<const PipelineAction> row, std::span<StageChannels> stages,
             const std::function<void(const PipelineAction&)>& compute);

/// A row as text: {F(0, 0), SEND_F(0, 0), RECV_B(0, 0), B(0, 0)}, each of a stage and a micro-batch.
namespace rows {
constexpr PipelineAction F(int32_t stage, int32_t micro_batch) { return {StageWork::forward, stage, micro_batch}; }
constexpr PipelineAction R(int32_t stage, int32_t micro_batch) { return {StageWork::recompute, stage, micro_batch}; }
constexpr PipelineAction B(int32_t stage, int32_t micro_batch) { return {StageWork::backward, stage, micro_batch}; }
constexpr PipelineAction I(int32_t stage, int32_t micro_batch) {
  return {StageWork::input_gradient, stage, micro_batch};
}
constexpr PipelineAction W(int32_t stage, int32_t micro_batch) {
  return {StageWork::weight_gradient, stage, micro_batch};
}
constexpr PipelineAction SEND_F(int32_t stage, int32_t micro_batch) {
  return {StageWork::send_forward, stage, micro_batch};
}
constexpr PipelineAction RECV_F(int32_t stage, int32_t micro_batch) {
  return {StageWork::receive_forward, stage, micro_batch};
}
constexpr PipelineAction SEND_B(int32_t stage, int32_t micro_batch) {
  return {StageWork::send_backward, stage, micro_batch};
}
constexpr PipelineAction RECV_B(int32_t stage, int32_t micro_batch) {
  return {StageWork::receive_backward, stage, micro_batch};
}
}  // namespace rows

}  // namespace meshrt
