#include "driver/given_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "generation/rounds.h"
#include "generation/vocabulary.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

/// The numbers of a round of texts.
std::vector<int32_t> given_lines(const RunFile& run, const DecoderShape& shape, std::span<const std::string> texts) {
  if (shape.given.empty()) return {};
  const Vocabulary vocabulary(run, shape.given, shape.given_vocabulary);
  const auto width = static_cast<size_t>(shape.given_positions);
  std::vector<int32_t> numbers(static_cast<size_t>(shape.sequences) * width, vocabulary.pad());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<int32_t> line = vocabulary.encode(texts[i], true);
    if (line.size() > width)
      throw Failure(
          Cause::data,
          fmt::format("prompt `{0}` has {1} positions: `{2}` has {3}; shorten it, or compile the program with "
                      "`--set {4}={1}`",
                      abbreviated(texts[i]), line.size(), shape.given, width, shape.given_along));
    std::ranges::copy(line, numbers.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return numbers;
}

}  // namespace

std::vector<Round> plan_rounds(const RunFile& run, const DecoderShape& shape, std::span<const size_t> lengths,
                               std::span<const std::string> given, size_t width) {
  std::vector<Round> rounds;
  for (std::vector<size_t>& numbers : rounds_of(lengths, static_cast<size_t>(shape.sequences) / width)) {
    std::vector<std::string> texts;
    for (const size_t i : numbers) texts.insert(texts.end(), width, given[i]);
    rounds.push_back({std::move(numbers), given_lines(run, shape, texts)});
  }
  return rounds;
}

}  // namespace meshrt
