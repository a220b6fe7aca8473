#include "driver/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "files/tensor_runs.h"
#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "meshrt/generation.h"
#include "meshrt/tensors_io.h"
#include "report/gather.h"

namespace meshrt {

namespace {

const Tensor* tensor_of(std::span<const Tensor> tensors, Role role, const std::string& name = "") {
  const auto found = std::ranges::find_if(
      tensors, [&](const Tensor& one) { return one.role == role && (name.empty() || one.name == name); });
  return found == tensors.end() ? nullptr : &*found;
}

/// This rank's part of a whole array.
void fill(const Tensor& tensor, std::span<const int32_t> whole) {
  auto* const part = static_cast<int32_t*>(tensor.data);
  for_each_run(extents_of(tensor), 0, tensor.local_elements(),
               [&](int64_t from, int64_t to, int64_t count) { std::copy_n(whole.begin() + from, count, part + to); });
}

std::string shape_text(const Tensor& tensor) {
  std::string text;
  for (const LocalDim& dim : tensor.dims) text += (text.empty() ? "" : ", ") + dim.name;
  return fmt::format("`{}` [{}]", tensor.name, text);
}

}  // namespace

DecoderShape DecoderShape::of(const ProgramInfo& info, std::span<const Tensor> tensors) {
  DecoderShape shape;
  shape.input = info.generation.input;
  const Tensor& token = *tensor_of(tensors, Role::input, shape.input);
  if (token.dims.size() > 2)
    throw Failure(Cause::usage,
                  fmt::format("{} has more dims than those of prompts and of positions", shape_text(token)));
  shape.vocabulary = token.index_bound;
  shape.along_first = token.dims.front().name == info.generation.along;
  for (const LocalDim& dim : token.dims)
    (dim.name == info.generation.along ? shape.positions : shape.sequences) = dim.size;
  for (const Tensor& other : tensors) {
    if (other.role != Role::input || other.name == shape.input || other.name == position_input) continue;
    const bool line = other.index_bound > 0 && other.dims.size() == 2 && token.dims.size() == 2 &&
                      other.dims.front().name == token.dims.front().name && !shape.along_first;
    if (!line || !shape.given.empty())
      throw Failure(Cause::usage,
                    fmt::format("what comes next in `{}` depends on the input {} too: what is given besides must be "
                                "one input of indices for each prompt",
                                shape.input, shape_text(other)));
    shape.given = other.name;
    shape.given_positions = other.dims.back().size;
    shape.given_vocabulary = other.index_bound;
  }
  return shape;
}

Decoder::Decoder(Rank& rank, Program& program, const StepInput& input)
    : rank_(rank), program_(program), input_(input), shape_(DecoderShape::of(program.info(), program.tensors())) {
  const std::span<const Tensor> tensors = program.tensors();
  entry_ = entry_of(program.info(), generate_entry);
  token_ = tensor_of(tensors, Role::input, shape_.input);
  position_ = tensor_of(tensors, Role::input, position_input);
  if (!shape_.given.empty()) given_ = tensor_of(tensors, Role::input, shape_.given);
  logits_ = tensor_of(tensors, Role::output);
  tokens_.resize(static_cast<size_t>(shape_.sequences * shape_.positions));
  given_tokens_.resize(static_cast<size_t>(shape_.given.empty() ? 0 : shape_.sequences * shape_.given_positions));
}

void Decoder::send(Order order, int64_t position) {
  std::array<int64_t, 2> words{static_cast<int64_t>(order), position};
  if (rank_.ranks() > 1) broadcast(rank_, world(rank_), {-1, "order"}, words.data(), 2, Type::i64, 0);
}

void Decoder::begin_here() {
  if (given_ != nullptr && rank_.ranks() > 1)
    broadcast(rank_, world(rank_), {-1, "given"}, given_tokens_.data(), static_cast<int64_t>(given_tokens_.size()),
              Type::i32, 0);
  if (given_ != nullptr) fill(*given_, given_tokens_);
  std::ranges::fill(tokens_, 0);
  for (const Tensor& tensor : program_.tensors())
    if (tensor.role == Role::cache)
      std::memset(tensor.data, 0, static_cast<size_t>(tensor.local_elements()) * size_of(tensor.type));
}

void Decoder::read_here(int64_t position) {
  if (rank_.ranks() > 1)
    broadcast(rank_, world(rank_), {-1, "tokens"}, tokens_.data(), static_cast<int64_t>(tokens_.size()), Type::i32, 0);
  fill(*token_, tokens_);
  if (position_ != nullptr) fill(*position_, std::array{static_cast<int32_t>(position)});
  program_.run(entry_, input_, {});
  gathered_ = gather_tensor(rank_, *logits_);
}

void Decoder::begin(std::span<const int32_t> given) {
  std::ranges::copy(given, given_tokens_.begin());
  send(Order::begin, 0);
  begin_here();
}

void Decoder::read(int64_t position) {
  send(Order::read, position);
  read_here(position);
}

void Decoder::end() { send(Order::end, 0); }

void Decoder::follow() {
  for (;;) {
    std::array<int64_t, 2> words{};
    broadcast(rank_, world(rank_), {-1, "order"}, words.data(), 2, Type::i64, 0);
    switch (static_cast<Order>(words[0])) {
      case Order::begin: begin_here(); break;
      case Order::read: read_here(words[1]); break;
      case Order::end: return;
    }
  }
}

std::vector<double> Decoder::logits(size_t sequence) const {
  const auto count = static_cast<size_t>(shape_.vocabulary);
  std::vector<double> row(count);
  const auto copy = [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(gathered_.data()) + sequence * count;
    std::copy(from, from + count, row.begin());
  };
  logits_->type == Type::f64 ? copy(double()) : copy(float());
  return row;
}

}  // namespace meshrt
