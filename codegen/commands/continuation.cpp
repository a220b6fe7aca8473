#include "codegen/commands/continuation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "codegen/generation/one_position.h"
#include "meshrt/failure.h"

namespace mesh {

namespace {

[[noreturn]] void refuse(const std::string& what) { throw meshrt::Failure(meshrt::Cause::data, what); }

std::vector<double> row_of(const meshrt::Array& logits, size_t sequence, size_t count) {
  std::vector<double> numbers(count);
  const auto copy = [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(logits.data.data()) + sequence * count;
    std::copy(from, from + count, numbers.begin());
  };
  logits.type == meshrt::Type::f64 ? copy(double()) : copy(float());
  return numbers;
}

}  // namespace

Continued::Continued(const Graph& graph) {
  const Stored& stored = graph.stored[graph.generation->input.index];
  input = stored.path;
  vocabulary = graph.dim(stored.type.index_of).size;
  positions = graph.dim(graph.generation->along).size;
  along_first = stored.type.dims.front() == graph.generation->along;
  if (stored.type.dims.size() > 2)
    refuse(fmt::format("`{}` has more dims than those of prompts and of positions: {}", input,
                       to_string(graph, stored.type)));
  for (const Stored& other : graph.stored) {
    if (other.kind != StoredKind::input || other.path == input || other.path == position_input) continue;
    const bool line = other.type.index_of && other.type.dims.size() == 2 && stored.type.dims.size() == 2 &&
                      other.type.dims.front() == stored.type.dims.front() && !along_first;
    if (!line || !given.empty())
      refuse(
          fmt::format("what comes next in `{}` depends on the input `{}` too, {}: what is given besides must be one "
                      "input of indices for each prompt",
                      input, other.path, to_string(graph, other.type)));
    given = other.path;
    given_positions = graph.dim(other.type.dims.back()).size;
    given_vocabulary = graph.dim(other.type.index_of).size;
  }
  for (const DimId dim : stored.type.dims) {
    if (dim == graph.generation->along) continue;
    batch = graph.dim(dim).name;
    sequences = graph.dim(dim).size;
  }
}

Writer::Writer(const WriteOptions& options, const Vocabulary& vocabulary, const Continued& of,
               std::vector<Sequence> sequences)
    : options_(options), vocabulary_(vocabulary), of_(of), sequences_(std::move(sequences)) {}

Feeds Writer::feeds() const {
  Feeds arrays;
  fill(arrays);
  return arrays;
}

bool Writer::next(const meshrt::Array& logits, Feeds& feeds) {
  for (size_t i = 0; i < sequences_.size(); ++i) extend(sequences_[i], i, logits);
  ++position_;
  fill(feeds);
  return std::ranges::any_of(sequences_, [](const Sequence& one) { return !one.ended; });
}

size_t Writer::wanted_of(const Sequence& one) const {
  const size_t room = static_cast<size_t>(of_.positions) - one.prompt;
  return options_.tokens == 0 ? room : static_cast<size_t>(options_.tokens);
}

void Writer::extend(Sequence& one, size_t number, const meshrt::Array& logits) {
  const std::vector<double> row = row_of(logits, number, static_cast<size_t>(of_.vocabulary));
  const size_t next = position_ + 1;
  if (next < one.prompt) one.given.push_back(meshrt::log_share(row, one.tokens[next]));
  if (one.ended || next != one.tokens.size()) return;
  const meshrt::Chosen chosen =
      meshrt::choose_next(row, options_.sampling, one.tokens, static_cast<int64_t>(number), static_cast<int64_t>(next));
  one.ended = chosen.token == vocabulary_.end();
  if (one.ended) return;
  one.logprobs.push_back(chosen.logprob);
  one.tokens.push_back(chosen.token);
  one.ended = one.made().size() == wanted_of(one) || stops(one);
  if (options_.show && sequences_.size() == 1) show(one);
}

void Writer::fill(Feeds& feeds) const {
  meshrt::Array tokens{meshrt::Type::i32, {of_.sequences, of_.positions}, {}};
  if (of_.along_first) std::swap(tokens.shape[0], tokens.shape[1]);
  if (of_.batch.empty()) tokens.shape = {of_.positions};
  std::vector<int32_t> numbers(static_cast<size_t>(of_.sequences * of_.positions));
  for (size_t i = 0; i < sequences_.size(); ++i)
    for (size_t p = 0; p < sequences_[i].tokens.size() && p < static_cast<size_t>(of_.positions); ++p)
      numbers[of_.at(i, p)] = sequences_[i].tokens[p];
  const auto here = static_cast<int32_t>(position_);
  const auto bytes = [](const auto* data, size_t count) {
    const auto* at = reinterpret_cast<const std::byte*>(data);
    return std::vector<std::byte>(at, at + count * sizeof *data);
  };
  tokens.data = bytes(numbers.data(), numbers.size());
  feeds[of_.input] = std::move(tokens);
  feeds[position_input] = {meshrt::Type::i32, {}, bytes(&here, 1)};
}

bool Writer::stops(const Sequence& one) const {
  if (options_.stops.empty()) return false;
  const std::string text = vocabulary_.decode(one.made());
  return std::ranges::any_of(options_.stops, [&](const std::string& stop) { return text.ends_with(stop); });
}

void Writer::show(const Sequence& one) {
  const std::string text = vocabulary_.decode(one.made());
  if (text.size() <= shown_) return;
  fmt::print("{}", text.substr(shown_));
  std::fflush(stdout);
  shown_ = text.size();
}

}  // namespace mesh
