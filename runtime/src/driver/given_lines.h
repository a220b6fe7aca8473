// given_lines.h: what the encoder of an encoder-decoder reads.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/decoder.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// The numbers of a round of texts, filled up as the run file says: [sequences, given positions]; none for a program
/// that is given nothing. Throws Failure (Cause::data) for a text that does not fit.
std::vector<int32_t> given_lines(const RunFile&, const DecoderShape&, std::span<const std::string> texts);

}  // namespace meshrt
