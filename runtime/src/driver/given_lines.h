// given_lines.h: texts that a program takes side by side, and what the encoder of an encoder-decoder reads.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/decoder.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// Texts that a program takes side by side.
struct Round {
  std::vector<size_t> numbers;  // of all texts
  std::vector<int32_t> given;   // what the encoder reads: [sequences, given positions]; none where there is none
};

/// The rounds of texts of these lengths, those of like lengths in one; `given` is what the encoder reads of each,
/// filled up as the run file says. A text takes `width` of the program's sequences. Throws Failure (Cause::data) for
/// one that does not fit.
std::vector<Round> plan_rounds(const RunFile&, const DecoderShape&, std::span<const size_t> lengths,
                               std::span<const std::string> given, size_t width = 1);

}  // namespace meshrt
