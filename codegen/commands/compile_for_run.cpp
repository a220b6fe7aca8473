#include "codegen/commands/compile_for_run.h"

#include "codegen/graph/watch.h"
#include "meshrt/run_file.h"

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

}  // namespace mesh
