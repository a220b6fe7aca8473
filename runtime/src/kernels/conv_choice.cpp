#include "conv_choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "meshrt/failure.h"

namespace meshrt {

ConvImplementation fastest(InstructionSet level, ConvClass shape) {
  constexpr auto ours = ConvImplementation::own, theirs = ConvImplementation::onednn;
  using Row = std::array<ConvImplementation, 3>;  // by_channels, narrow, wide
  constexpr std::array<Row, 3> table = {{
      {ours, theirs, theirs},  // portable
      {ours, ours, theirs},    // avx2
      {ours, ours, theirs},    // avx512
  }};
  return table[static_cast<size_t>(std::min(level, InstructionSet::avx512))][static_cast<size_t>(shape)];
}

std::optional<ConvImplementation> wanted_conv_implementation() {
  const char* name = std::getenv("MESHRT_CONV");
  const std::string wanted = name ? name : "";
  if (wanted == "own") return ConvImplementation::own;
  if (wanted == "onednn") return ConvImplementation::onednn;
  if (!wanted.empty())
    throw Failure(Cause::environment, "MESHRT_CONV is `" + wanted + "`; it may be `own` or `onednn`");
  return std::nullopt;
}

}  // namespace meshrt
