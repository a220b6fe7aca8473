#include "codegen/commands/start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "codegen/commands/command.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/program_cache.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"

namespace mesh {

bool may_start(Session& session, const Compiled& compiled) {
  const int64_t ranks = compiled.sharded().layout.mesh.ranks();
  meshrt::require_cpus(ranks);
  if (const int cores = meshrt::allowed_cores(); ranks > cores) {
    session.sink.lint("oversubscribed", {}, "{} ranks, but this machine has {} cores", ranks, cores);
    session.report();
  }
  return !session.failed();
}

int start_program(Session& session, const SpecOptions& spec, const OutputOptions& output, const Compiled& compiled,
                  const std::vector<std::string>& before, const std::vector<std::string>& behind) {
  const std::optional<std::filesystem::path> program =
      cached_program(program_name(spec), emitted_text(session, spec, compiled), texts_of_run(session, compiled));
  if (!program) return exit_interrupted;
  std::vector<std::string> command{program->string()};
  command.insert(command.end(), before.begin(), before.end());
  if (const std::string run_file = spec.run_file(); !run_file.empty()) command.push_back(run_file);
  for (const std::string& one : spec.overrides()) command.push_back(one);
  if (const int64_t ranks = compiled.sharded().layout.mesh.ranks(); ranks > 1)
    command.insert(command.end(), {"-n", std::to_string(ranks)});
  if (output.color != "auto") command.push_back("--color=" + output.color);
  command.insert(command.end(), behind.begin(), behind.end());
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& one : command) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  execv(arguments.front(), arguments.data());
  throw meshrt::Failure(meshrt::Cause::environment,
                        fmt::format("cannot start {}: {}", command.front(), std::strerror(errno)));
}

}  // namespace mesh
