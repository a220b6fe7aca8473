// build.cpp: `meshc build SPEC -o DIR`: writes the C++ program and compiles it.
#include "codegen/emit/build.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/compile_for_run.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/predicted.h"
#include "codegen/commands/session.h"
#include "codegen/emit/bundle.h"

namespace mesh {

namespace {

struct BuildOptions {
  OutputOptions output;
  SpecOptions spec;
  std::string folder;
  bool only_write = false, bundle = false;
  std::string target = "native";
  std::vector<std::string> predicted;
  bool generate = false;
};

/// A run file that lies beside the spec is not written over by the copy of another one.
void refuse_written_over(const BuildOptions& options, const std::filesystem::path& copy) {
  std::filesystem::path of_spec(options.spec.spec_files().front());
  of_spec.replace_extension(".yaml");
  std::error_code absent;
  const std::filesystem::path given = options.spec.run_file();
  if (!std::filesystem::equivalent(of_spec, copy, absent) || std::filesystem::equivalent(given, copy, absent)) return;
  throw UsageError(
      fmt::format("the program's run file is {}, a copy of {}; one of the spec's own is there: name another "
                  "folder by `-o DIR`",
                  copy.string(), given.string()));
}

/// A run file in the program's folder is read, also one of an earlier build or the spec's own.
void tell_run_file(const BuildOptions& options, const std::filesystem::path& copy) {
  if (options.spec.run_file().empty() && std::filesystem::exists(copy))
    fmt::print(stderr, "note: no run file was given; the program reads {}, which was there before\n", copy.string());
}

/// The tokenizers of the run file: a program that generates reads no data, but text as they do.
std::map<std::string, std::string> tokenizers_of(const meshrt::RunFile& run) {
  std::map<std::string, std::string> files;
  for (const meshrt::Source& source : run.data)
    for (const meshrt::FileSource& file : source.files()) {
      if (!file.tokenizer.given()) continue;
      const std::filesystem::path path = std::filesystem::absolute(file.tokenizer.value).lexically_normal();
      files.emplace(path, path.filename());
    }
  return files;
}

int build(const BuildOptions& options) {
  for (const std::string& key : options.spec.overrides())
    if (!key.starts_with("log.watch="))
      throw UsageError(key +
                       ": keys of the run file are given to `meshc run`, or to the program; only `log.watch` says what "
                       "the program is to compute");
  Session session(options.spec, options.output);
  if (!options.predicted.empty()) session.request.entries = {predicted(options.predicted)};
  if (options.generate && !options.predicted.empty())
    throw UsageError("--generate makes a program that generates and does nothing else: --predict goes without it");
  session.request.generate = options.generate;
  const std::optional<Compiled> compiled = compile_for_run(session, options.spec);
  if (!compiled) return exit_diagnostics;
  const meshrt::NamedFiles files = meshrt::NamedFiles::may_lack;
  const meshrt::RunFile run = meshrt::read_run_file(options.spec.run_file(), options.spec.overrides(), files);
  if (!options.generate) check_fits(session, *compiled, run, files);
  const std::string name = program_name(options.spec);
  const std::string folder = options.folder.empty() ? name : options.folder;
  if (!options.bundle) refuse_written_over(options, std::filesystem::path(folder) / (name + ".yaml"));
  const BuildPlan plan{folder,
                       name,
                       emitted_text(session, options.spec, *compiled),
                       options.spec.run_file(),
                       !options.only_write,
                       options.target,
                       texts_of_run(session, *compiled),
                       options.generate ? tokenizers_of(run) : std::map<std::string, std::string>{}};
  if (options.bundle) {
    const size_t files = write_bundle(plan);
    fmt::print(stderr, "wrote the bundle {}: {} files; `sh build.sh` in it builds {}\n", folder, files, name);
    return exit_ok;
  }
  if (!build_program(plan)) return exit_interrupted;
  const int64_t ranks = compiled->sharded().layout.mesh.ranks();
  const std::string program = (std::filesystem::path(folder) / name).string();
  if (options.only_write) fmt::print(stderr, "wrote {}.cpp; compile it with {}/build.sh\n", program, folder);
  else fmt::print(stderr, "built {} for {} rank{}\n", program, ranks, ranks == 1 ? "" : "s");
  tell_run_file(options, program + ".yaml");
  return exit_ok;
}

}  // namespace

Command build_command() {
  return {
      "build",
      "write the C++ program of a spec and compile it",
      "Writes DIR/NAME.cpp, DIR/build.sh and the run file as DIR/NAME.yaml, and compiles to DIR/NAME, where NAME is\n"
      "the spec's. DIR/NAME reads DIR/NAME.yaml where it is given no other run file.\n"
      "build.sh needs a C++ compiler and the runtime: the one of $MESHRT, else the one that pkg-config finds.",
      {{"meshc build gpt.mesh -o out", "out/gpt.cpp, out/build.sh and the program out/gpt"},
       {"meshc build gpt.mesh -o out --mesh data=4,model=2", "for eight ranks"},
       {"meshc build gpt.mesh -o out --target x86-64-v3", "for processors with AVX2"},
       {"meshc build gpt.mesh run.yaml -o out", "computes what `log.watch` of run.yaml names"},
       {"meshc build gpt.mesh -o out --bundle", "with the runtime's sources: builds where only a compiler and UCX are"},
       {"meshc build mlp.mesh -o out --predict logits", "a program that answers `predict` too"},
       {"meshc build gpt.mesh -o out --generate --set batch=4", "writes on from four prompts at a time"},
       {"out/gpt -n 8 run.yaml", "run it on this host"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<BuildOptions>();
        options->spec.declare(app, true);
        app.get_option("spec")->type_name("SPEC [LAYOUTS.mesh] [RUN.yaml]")->description("");
        app.add_option("-o,--output", options->folder, "the folder to write to (default: the spec's name)")
            ->type_name("DIR");
        app.add_flag("--no-compile", options->only_write, "write the files, do not compile them");
        app.add_flag("--bundle", options->bundle,
                     "write the runtime's sources too: a folder for a machine without Meshwright. Compiles nothing");
        app.add_option("--predict", options->predicted, "a value that DIR/NAME predict gives for every sample")
            ->type_name("VALUE")
            ->take_all()
            ->allow_extra_args(false);
        app.add_flag("--generate", options->generate,
                     "a program that writes on from prompts, DIR/NAME generate, in place of one that trains");
        app.add_option("--target", options->target, "the processor to compile for: what the compiler's -march takes")
            ->type_name("CPU")
            ->check([](const std::string& name) {
              const bool plain =
                  name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+") ==
                  std::string::npos;
              return plain && !name.empty()
                         ? ""
                         : "a name such as native, x86-64-v3 or neoverse-n1 is expected, not `" + name + "`";
            });
        options->output.declare(app, false);
        return [options] { return build(*options); };
      }};
}

}  // namespace mesh
