#include "codegen/commands/compile_for_run.h"

#include "codegen/interpret/interpret.h"
#include "codegen/optimizer/watch.h"

namespace mesh {

std::optional<Compiled> compile_for_run(Session& session, const SpecOptions& spec) {
  const meshrt::RunFile run = meshrt::read_run_file(spec.run_file(), spec.overrides(), meshrt::NamedFiles::may_lack);
  for (const meshrt::Given<std::string>& entry : run.log.watch) session.request.watch.push_back(entry.value);
  try {
    return session.compile();
  } catch (const Unwatchable& refused) {
    throw run.error(run.log.watch[refused.entry].mark, refused.what(), refused.way_out);
  }
}

void check_fits(const Session& session, const Compiled& compiled, const meshrt::RunFile& run,
                meshrt::NamedFiles files) {
  std::vector<meshrt::Tensor> tensors = tensors_of_rank(compiled.program, &session.sources, 0);
  meshrt::check_fits(program_info(compiled.program, &session.sources), tensors, run, files);
}

void check_reads(const Session& session, const Compiled& compiled, const SpecOptions& spec,
                 const meshrt::ModelFiles& files, CheckReads check) {
  const meshrt::RunFile run = meshrt::read_run_file(spec.run_file(), spec.overrides(), meshrt::NamedFiles::may_lack);
  std::vector<meshrt::Tensor> tensors = tensors_of_rank(compiled.program, &session.sources, 0);
  check(program_info(compiled.program, &session.sources), tensors, run, files);
}

}  // namespace mesh
