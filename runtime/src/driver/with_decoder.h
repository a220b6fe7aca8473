// with_decoder.h: what `generate` and `score` begin with: the job, the program's memory, its numbers of texts, the
// model's parameters.
#pragma once
#include <functional>

#include "driver/decoder.h"
#include "generation/vocabulary.h"
#include "meshrt/driver.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// What rank 0 does with the model; the others follow it.
using DecoderWork = std::function<void(Decoder&)>;

/// `plan` is asked on all ranks before anything is loaded: it refuses what the program has no room for, and gives the
/// work. Collective. Throws Failure as `generate` (meshrt/generation.h).
void with_decoder(Rank&, Program&, const RunFile&, const ModelFiles&,
                  const std::function<DecoderWork(const DecoderShape&, const Vocabulary&)>& plan);

}  // namespace meshrt
