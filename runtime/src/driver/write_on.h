// write_on.h: a round of prompts that a model writes on, side by side, at one position after the other.
#pragma once
#include <span>
#include <vector>

#include "driver/decoder.h"
#include "generation/beam_search.h"
#include "generation/writer.h"

namespace meshrt {

/// On rank 0, of a decoder that has begun: until all sequences of the writer have ended.
void write_on(Decoder&, Writer&);

/// The same by beams: each prompt has `GenerateRequest::beams` of the decoder's sequences. `prompts` get what the model
/// says of their tokens. Gives the search of each, which is done.
std::vector<BeamSearch> search(Decoder&, const GenerateRequest&, const Vocabulary&, std::span<Sequence> prompts);

}  // namespace meshrt
