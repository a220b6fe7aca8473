// run.cpp: `meshc run SPEC`: builds the program into a cache and starts its ranks on this host.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/session.h"
#include "codegen/emit/build.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "meshrt/random.h"
#include "meshrt/run_file.h"

namespace mesh {

namespace fs = std::filesystem;

namespace {

struct Options {
  OutputOptions output;
  SpecOptions spec;
  bool dry_run = false;
  std::string run_folder;
};

fs::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return fs::path(cache) / "meshwright";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "meshwright";
  return fs::temp_directory_path() / fmt::format("meshwright-{}", getuid());
}

/// What the binary is made of beside the text: how it is compiled, and the library that is linked into it.
std::string build_key(const std::string& name) {
  std::string key = build_script(name);
  for (const char* variable : {"CXX", "CXXFLAGS", "TARGET"})
    if (const char* value = std::getenv(variable)) key += fmt::format("{}={}\n", variable, value);
  const std::string runtime = find_runtime();
  key += runtime + "\n";
  std::error_code ignored;
  for (const char* library : {"runtime/libmeshrt.a", "lib/libmeshrt.a", "lib/x86_64-linux-gnu/libmeshrt.a",
                              "lib/aarch64-linux-gnu/libmeshrt.a"}) {
    const fs::path path = fs::path(runtime) / library;
    if (!fs::exists(path, ignored)) continue;
    key += fmt::format("{} {}\n", fs::file_size(path, ignored),
                       fs::last_write_time(path, ignored).time_since_epoch().count());
  }
  return key;
}

/// Builds in a folder of its own and moves it into place, so that two runs at once do not meet.
std::optional<fs::path> cached_program(const std::string& name, const std::string& text,
                                       const std::map<std::string, std::string>& beside) {
  const uint64_t hash = meshrt::hash_of(text + '\0' + build_key(name));
  const fs::path folder = cache_folder() / fmt::format("{:016x}", hash), program = folder / name;
  if (fs::exists(program)) return program;
  const fs::path making = folder.string() + fmt::format(".{}", getpid());
  fmt::print(stderr, "compiling {}, {} lines of C++\n", name, std::ranges::count(text, '\n'));
  const auto start = std::chrono::steady_clock::now();
  if (!build_program({.folder = making.string(), .name = name, .text = text, .run_file = "", .beside = beside}))
    return std::nullopt;
  std::error_code taken;
  fs::rename(making, folder, taken);
  if (taken) fs::remove_all(making, taken);  // another run was faster
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print(stderr, "compiled {} in {:.1f} s\n", name, seconds.count());
  return program;
}

/// Tells what is wrong with the run file before anything is compiled; the program looks closer.
void check_run_file(const Options& options) {
  const std::string path = options.spec.run_file();
  const meshrt::RunFile run = meshrt::read_run_file(path, options.spec.overrides());
  const auto check = [&](const std::vector<meshrt::Source>& sources) {
    for (const meshrt::Source& source : sources)
      if (source.file.given() && !source.file.value.empty() && !fs::exists(source.file.value))
        throw run.error(source.file.mark, fmt::format("there is no file `{}`", source.file.value));
  };
  check(run.data);
  check(run.validation.data);
  if (run.train.steps.given() || options.dry_run) return;
  if (path.empty())
    throw meshrt::Failure(
        meshrt::Cause::data,
        fmt::format("there is no run file: write {0}.yaml beside the spec, or give one on the command "
                    "line, with `data:` for every input and `train: {{ steps: 1000 }}`",
                    program_name(options.spec)));
  meshrt::require_steps(run);
}

int run(const Options& options) {
  Session session(options.spec, options.output);
  const std::optional<Compiled> compiled = session.compile();
  if (!compiled) return exit_diagnostics;
  const int64_t ranks = compiled->sharded.layout.mesh.ranks();
  if (const int cores = meshrt::allowed_cpus(); ranks > cores) {
    session.sink.lint("oversubscribed", {}, "{} ranks, but this machine has {} cores", ranks, cores);
    session.report();
    if (session.failed()) return exit_diagnostics;
  }
  check_run_file(options);
  const std::string name = program_name(options.spec);
  const std::optional<fs::path> program =
      cached_program(name, emitted_text(session, options.spec, *compiled), texts_of_run(session, *compiled));
  if (!program) return exit_interrupted;

  std::vector<std::string> command{program->string()};
  if (const std::string run_file = options.spec.run_file(); !run_file.empty()) command.push_back(run_file);
  for (const std::string& one : options.spec.overrides()) command.push_back(one);
  if (ranks > 1) command.insert(command.end(), {"-n", std::to_string(ranks)});
  if (options.output.color != "auto") command.push_back("--color=" + options.output.color);
  if (!options.run_folder.empty()) command.push_back("--run-dir=" + options.run_folder);
  if (options.dry_run) command.emplace_back("--dry-run");
  std::vector<char*> arguments;
  for (std::string& one : command) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  execv(arguments.front(), arguments.data());
  throw meshrt::Failure(meshrt::Cause::environment,
                        fmt::format("cannot start {}: {}", command.front(), std::strerror(errno)));
}

}  // namespace

Command run_command() {
  return {"run",
          "build a spec's program and start its ranks on this host",
          "The run file says which data to train on and for how long; without one on the command line it is the file "
          "beside\n"
          "the spec with the same stem. Programs are kept in $XDG_CACHE_HOME/meshwright (else ~/.cache/meshwright).",
          {{"meshc run gpt.mesh", "with gpt.yaml, under the default layout"},
           {"meshc run gpt.mesh --mesh data=2", "two ranks of the layout's mesh"},
           {"meshc run gpt.mesh big.yaml train.steps=100", "another run file, one key changed"},
           {"meshc run gpt.mesh more_layouts.mesh --layout sequence", "a layout of a second file"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<Options>();
            options->spec.declare(app, true);
            app.add_flag("--dry-run", options->dry_run,
                         "start, allocate, one all-reduce, the first batch; no training");
            app.add_option("--run-dir", options->run_folder,
                           "the folder of this run (default: runs/NAME-0001 and so on); none: no folder")
                ->type_name("DIR");
            options->output.declare(app, false);
            return [options] { return run(*options); };
          }};
}

}  // namespace mesh
