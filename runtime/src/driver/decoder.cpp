#include "driver/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

#include "files/tensor_runs.h"
#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "meshrt/generation.h"
#include "meshrt/tensors_io.h"
#include "report/gather.h"
#include "system/seconds_since.h"

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

/// `count` of the numbers of a whole tensor, from `first` on.
std::vector<double> numbers(std::span<const std::byte> whole, size_t first, size_t count, Type type) {
  std::vector<double> row(count);
  const auto copy = [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(whole.data()) + first;
    std::copy(from, from + count, row.begin());
  };
  type == Type::f64 ? copy(double()) : copy(float());
  return row;
}

std::optional<size_t> find_entry(const ProgramInfo& info, const char* name) {
  const auto found = std::ranges::find(info.entries, name, &EntryInfo::name);
  return found == info.entries.end() ? std::nullopt : std::optional(static_cast<size_t>(found - info.entries.begin()));
}

/// Of no input that the spec declares.
bool is_own(const Tensor& tensor) { return tensor.name.starts_with(std::string(generate_entry) + "."); }

std::string shape_text(const Tensor& tensor) {
  std::string text;
  for (const LocalDim& dim : tensor.dims) text += (text.empty() ? "" : ", ") + dim.name;
  return fmt::format("`{}` [{}]", tensor.name, text);
}

}  // namespace

DecoderShape DecoderShape::of(const ProgramInfo& info, std::span<const Tensor> tensors) {
  DecoderShape shape;
  shape.input = info.generation.input;
  shape.along = info.generation.along;
  shape.learned = std::ranges::any_of(tensors, [&](const Tensor& one) {
    return one.role == Role::parameter && std::ranges::count(one.dims, shape.along, &LocalDim::name) > 0;
  });
  const Tensor& token = *tensor_of(tensors, Role::input, shape.input);
  if (token.dims.size() > 2)
    throw Failure(Cause::usage,
                  fmt::format("{} has more dims than those of prompts and of positions", shape_text(token)));
  shape.vocabulary = token.index_bound;
  shape.along_first = token.dims.front().name == info.generation.along;
  for (const LocalDim& dim : token.dims) {
    if (dim.name != info.generation.along) shape.batch = dim.name;
    (dim.name == info.generation.along ? shape.positions : shape.sequences) = dim.size;
  }
  const Tensor* position = tensor_of(tensors, Role::input, position_input);
  shape.own_positions = position != nullptr && !position->dims.empty();
  for (const Tensor& other : tensors) {
    if (other.role != Role::input || other.name == shape.input || is_own(other)) continue;
    const bool line = other.index_bound > 0 && other.dims.size() == 2 && token.dims.size() == 2 &&
                      other.dims.front().name == token.dims.front().name && !shape.along_first;
    if (!line || !shape.given.empty())
      throw Failure(Cause::usage,
                    fmt::format("what comes next in `{}` depends on the input {} too: what is given besides must be "
                                "one input of indices for each prompt",
                                shape.input, shape_text(other)));
    shape.given = other.name;
    shape.given_along = other.dims.back().name;
    shape.given_positions = other.dims.back().size;
    shape.given_vocabulary = other.index_bound;
  }
  return shape;
}

Decoder::Decoder(Rank& rank, Program& program, const StepInput& input)
    : rank_(rank),
      program_(program),
      input_(input),
      shape_(DecoderShape::of(program.info(), program.tensors())),
      entry_(entry_of(program.info(), generate_entry)),
      prompt_entry_(find_entry(program.info(), prompt_entry)),
      begin_entry_(find_entry(program.info(), begin_entry)),
      beams_entry_(find_entry(program.info(), beams_entry)),
      tensors_(program.tensors()) {
  token_ = tensor_of(tensors_, Role::input, shape_.input);
  position_ = tensor_of(tensors_, Role::input, position_input);
  last_ = tensor_of(tensors_, Role::input, last_input);
  if (!shape_.given.empty()) given_ = tensor_of(tensors_, Role::input, shape_.given);
  logits_ = tensor_of(tensors_, Role::output);
  const auto elements = static_cast<size_t>(shape_.sequences * shape_.positions);
  tokens_.resize(elements);
  behind_.resize(elements);
  next_.resize(elements);
  from_.resize(static_cast<size_t>(shape_.sequences));
  positions_.resize(static_cast<size_t>(shape_.sequences));
  given_tokens_.resize(static_cast<size_t>(shape_.given.empty() ? 0 : shape_.sequences * shape_.given_positions));
}

void Decoder::send(Order order) {
  auto word = static_cast<int64_t>(order);
  if (rank_.ranks() > 1) broadcast(rank_, world(rank_), {-1, "order"}, &word, 1, Type::i64, 0);
}

/// From rank 0 to all.
void Decoder::spread(std::vector<int32_t>& numbers, const char* what) {
  if (rank_.ranks() > 1)
    broadcast(rank_, world(rank_), {-1, what}, numbers.data(), static_cast<int64_t>(numbers.size()), Type::i32, 0);
}

void Decoder::begin_here() {
  if (given_ != nullptr) {
    spread(given_tokens_, "given");
    fill(*given_, given_tokens_);
  }
  std::ranges::fill(tokens_, 0);
  std::ranges::fill(behind_, 0);
  for (const Tensor& tensor : tensors_)
    if (tensor.role == Role::cache)
      std::memset(tensor.data, 0, static_cast<size_t>(tensor.local_elements()) * size_of(tensor.type));
  begun_ = !begin_entry_;
}

/// Those of a round that has fewer stand where the first does.
void Decoder::stand_at(std::span<const size_t> positions) {
  std::ranges::fill(positions_, static_cast<int32_t>(positions.front()));
  std::ranges::copy(positions, positions_.begin());
}

void Decoder::run(size_t entry) {
  spread(tokens_, "tokens");
  spread(positions_, "positions");
  fill(*token_, tokens_);
  if (position_ != nullptr)
    fill(*position_, shape_.own_positions ? std::span(positions_) : std::span(positions_).first(1));
  if (last_ != nullptr) fill(*last_, std::array{std::ranges::max(positions_)});
  program_.run(entry, input_, {});
}

void Decoder::prompt_here() {
  const auto output = [&](const char* name) {
    return gather_tensor(rank_, *tensor_of(tensors_, Role::output, fmt::format("{}.{}", prompt_entry, name)));
  };
  spread(behind_, "tokens");
  fill(*tensor_of(tensors_, Role::input, next_input), behind_);
  run(*prompt_entry_);
  begun_ = true;
  const std::vector<std::byte> logprobs = output("logprob"), likeliest = output("likeliest");
  gathered_ = output("logits");
  if (rank_.rank() != 0) return;
  const std::vector<double> said = numbers(logprobs, 0, next_.size(), logits_->type);
  for (size_t i = 0; i < next_.size(); ++i) {
    int32_t best = 0;
    std::memcpy(&best, &likeliest[i * sizeof best], sizeof best);
    next_[i] = {said[i], best == behind_[i]};
  }
}

void Decoder::read_here() {
  if (!begun_) program_.run(*begin_entry_, input_, {});
  begun_ = true;
  run(entry_);
  gathered_ = gather_tensor(rank_, *logits_);
}

void Decoder::choose_here() {
  if (!beams_entry_) return;
  spread(from_, "from");
  fill(*tensor_of(tensors_, Role::input, from_input), from_);
  program_.run(*beams_entry_, input_, {});
}

void Decoder::begin(std::span<const int32_t> given) {
  std::ranges::copy(given, given_tokens_.begin());
  send(Order::begin);
  begin_here();
}

void Decoder::set(size_t sequence, size_t position, int32_t token) {
  if (position < static_cast<size_t>(shape_.positions)) tokens_[shape_.at(sequence, position)] = token;
  if (position > 0) behind_[shape_.at(sequence, position - 1)] = token;
}

/// A pass takes as long for few positions as for all; one by one, each reads all parameters.
bool Decoder::one_pass_pays(size_t positions) const {
  constexpr size_t share = 8;
  return prompt_entry_ && positions > 1 && positions * share >= static_cast<size_t>(shape_.positions);
}

void Decoder::read_first(std::span<const size_t> positions) {
  const auto start = std::chrono::steady_clock::now();
  if (one_pass_pays(std::ranges::max(positions))) {
    std::vector<size_t> ends(positions.begin(), positions.end());
    for (size_t& end : ends) --end;
    stand_at(ends);
    send(Order::prompt);
    prompt_here();
  } else {
    read_one_by_one(positions);
  }
  seconds_ += seconds_since(start);
}

/// All come to their ends at once: a shorter one stays at its beginning for a while, and begins anew each time.
void Decoder::read_one_by_one(std::span<const size_t> positions) {
  const size_t longest = std::ranges::max(positions);
  std::vector<size_t> at(positions.size());
  for (size_t read_before = 0; read_before < longest; ++read_before) {
    for (size_t i = 0; i < at.size(); ++i) {
      const size_t waits = longest - positions[i];
      at[i] = read_before < waits ? 0 : read_before - waits;
    }
    read(at);
    for (size_t i = 0; i < at.size(); ++i) {
      const size_t place = shape_.at(i, at[i]);
      const std::vector<double> row = logits(i);
      next_[place] = {log_share(row, behind_[place]), likeliest(row) == behind_[place]};
    }
  }
}

void Decoder::read(std::span<const size_t> positions) {
  stand_at(positions);
  send(Order::read);
  read_here();
}

void Decoder::choose(std::span<const int32_t> from) {
  std::ranges::copy(from, from_.begin());
  for (std::vector<int32_t>* numbers : {&tokens_, &behind_}) {
    const std::vector<int32_t> before = *numbers;
    for (size_t i = 0; i < from.size(); ++i)
      for (size_t position = 0; position < static_cast<size_t>(shape_.positions); ++position)
        (*numbers)[shape_.at(i, position)] = before[shape_.at(static_cast<size_t>(from[i]), position)];
  }
  send(Order::choose);
  choose_here();
}

void Decoder::end() { send(Order::end); }

void Decoder::follow() {
  for (;;) {
    int64_t word = 0;
    broadcast(rank_, world(rank_), {-1, "order"}, &word, 1, Type::i64, 0);
    switch (static_cast<Order>(word)) {
      case Order::begin: begin_here(); break;
      case Order::prompt: prompt_here(); break;
      case Order::read: read_here(); break;
      case Order::choose: choose_here(); break;
      case Order::end: return;
    }
  }
}

std::vector<double> Decoder::logits(size_t sequence) const {
  const auto count = static_cast<size_t>(shape_.vocabulary);
  std::vector<double> row = numbers(gathered_, sequence * count, count, logits_->type);
  if (std::ranges::any_of(row, [](double x) { return std::isnan(x); })) refuse_nan();
  return row;
}

void refuse_nan() {
  throw Failure(Cause::numeric,
                "what the model says of the next element is nan: its parameters are not those of a "
                "model that has been trained well; `meshc ckpt verify` names those that are not finite");
}

}  // namespace meshrt
