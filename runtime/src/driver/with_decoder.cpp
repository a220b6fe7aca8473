#include "driver/with_decoder.h"

#include "driver/model_files.h"
#include "driver/same_job.h"
#include "driver/start.h"
#include "system/tell.h"

namespace meshrt {

void with_decoder(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files,
                  const std::function<DecoderWork(const DecoderShape&, const Vocabulary&)>& plan) {
  const ProgramInfo& info = program.info();
  heed_timeout(rank, run);
  check_same_job(rank, info, run);
  prepare(rank, program);
  const DecoderShape shape = DecoderShape::of(info, program.tensors());
  const Vocabulary vocabulary(run, shape.input, shape.vocabulary);
  const DecoderWork work = plan(shape, vocabulary);
  const LoadedModel model = load_model(rank, program, run, files);
  Decoder decoder(rank, program, {.step = model.moment.step, .steps = model.moment.steps, .seed = model.moment.seed});
  if (rank.rank() != 0) return decoder.follow();
  if (!model.note.empty()) tell("note: {}\n", model.note);
  work(decoder);
  decoder.end();
}

}  // namespace meshrt
