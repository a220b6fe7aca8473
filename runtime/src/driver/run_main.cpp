// The main function of an emitted program.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "driver/command_line.h"
#include "driver/start.h"
#include "meshrt/driver.h"
#include "meshrt/failure.h"
#include "meshrt/generation.h"
#include "meshrt/launch.h"
#include "meshrt/program.h"
#include "meshrt/standard_streams.h"
#include "meshrt/threads.h"
#include "system/tell.h"
#include "transport/transport.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

std::string this_program() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) throw Failure(Cause::environment, "cannot read /proc/self/exe: is /proc mounted?");
  return {path.data(), static_cast<size_t>(length)};
}

// The run file given, else the one beside the program, where `meshc build` puts the one that it was given, else the one
// beside the spec, else none.
std::string find_run_file(const CommandLine& line, const ProgramInfo& info) {
  if (!line.run_file.empty()) return line.run_file;
  std::error_code ignored;
  for (const std::string& stem : {this_program(), fs::path(info.spec).replace_extension().string()})
    for (const char* ending : {".yaml", ".json"})  // JSON is YAML, and what a bundle has
      if (!stem.empty() && fs::is_regular_file(stem + ending, ignored)) return stem + ending;
  return "";
}

// Ranks that this process starts itself: their number must be right before anything starts. `called`: the word by which
// the shell has found the program.
void check_ranks(const CommandLine& line, const ProgramInfo& info, const std::string& called) {
  const int size = mesh_size(info);
  if (line.ranks != 0 && line.ranks != size)
    throw Failure(Cause::usage, fmt::format("-n {}, but `{}` is compiled for {} rank{}: use -n {}", line.ranks,
                                            info.name, size, size == 1 ? "" : "s", size));
  if (line.ranks == 0 && !line.threads && size > 1 && !in_job())
    throw Failure(
        Cause::usage,
        fmt::format("`{0}` is compiled for {1} ranks: start it with `{2} -n {1}`, or with `meshrun -n {1} {2}`",
                    info.name, size, called));
}

int start_processes(const CommandLine& line, const std::string& run_file) {
  std::vector<std::string> command = {this_program()}, words = words_for_ranks(line);
  command.insert(command.end(), words.begin(), words.end());
  if (!run_file.empty()) command.push_back(run_file);
  return launch_processes(line.ranks, command, {});
}

/// A program that does not train reads some of what its run file names, and tells what of that is not there.
RunFile read_run_file(const CommandLine& line, const std::string& path) {
  return read_run_file(path, line.overrides,
                       line.command == Command::train ? NamedFiles::must_exist : NamedFiles::may_lack);
}

int perform(const CommandLine& line, Rank& rank, Program& program, const RunFile& run, const DriverOptions& options) {
  if (line.dry_run) return dry_run(rank, program, run, options);
  switch (line.command) {
    case Command::train: return train(rank, program, run, options);
    case Command::evaluate: return evaluate(rank, program, run, line.model, line.json, options);
    case Command::predict: return predict(rank, program, run, line.model, line.out, line.json, options);
    case Command::generate: return generate(rank, program, run, line.model, line.generate, line.json, options);
    case Command::score: return score(rank, program, run, line.model, line.generate, line.json, options);
  }
  return 0;
}

/// Of a rank that has several; null: it computes alone.
std::unique_ptr<Threads> threads_for(const Rank& rank, int threads) {
  if (threads == 1) return nullptr;
  const bool a_cpu_each = ranks_here(rank) * threads <= rank.transport().cpus();
  return std::make_unique<Threads>(threads, std::chrono::microseconds(a_cpu_each ? 200 : 0));
}

/// Where ranks have more threads than there are CPUs, they hold each other up.
void warn_of_threads(const Rank& rank, int threads) {
  const int local = ranks_here(rank), cpus = rank.transport().cpus();
  if (local * threads <= cpus) return;
  tell("warning: {} threads in each of {} rank{} are more than the {} CPU{} of this host: they hold each other up\n",
       threads, local, local == 1 ? "" : "s", cpus, cpus == 1 ? "" : "s");
}

void require_instructions(const std::string& name, const char* instructions) {
  const std::string missing = missing_instructions(instructions);
  if (missing.empty()) return;
#if defined(__aarch64__)
  const char* const targets = "--target armv8-a` (any of its kind)";
#else
  const char* const targets = "--target x86-64-v3` (any CPU since about 2015), or `--target x86-64` (any)";
#endif
  throw Failure(Cause::environment,
                fmt::format("`{}` is compiled for another CPU: this one does not have {}\nbuild it here, or by `meshc "
                            "build SPEC {}",
                            name, missing, targets));
}

int run(int argc, char** argv, MakeProgram make, const char* instructions) {
  const std::string name = argc > 0 ? fs::path(argv[0]).filename().string() : "program";
  require_instructions(name, instructions);
  CommandLine line = parse_command_line({argv + std::min(argc, 1), static_cast<size_t>(std::max(0, argc - 1))});
  choose_color(line.color);
  if (line.help) {
    tell_on(stdout, "{}", help_text(name));
    require_written(stdout);
    return 0;
  }
  const ProgramInfo info = make()->info();
  std::signal(SIGXFSZ, SIG_IGN);                  // a file that may not be so large is an error with its name
  if (!line.info) std::signal(SIGPIPE, SIG_IGN);  // training goes on when nobody reads of it any more
  if (line.info) {
    tell_on(stdout, "{}", line.json ? info_json(info) : info_text(info));
    require_written(stdout);
    return 0;
  }
  const char* runs = std::getenv("MESHRT_RUNS");
  const DriverOptions options{stdout, line.color, line.run_folder, runs && *runs ? runs : "runs",
                              fs::path(this_program()).parent_path().string()};
  const std::string run_file = find_run_file(line, info);
  if (line.threads_of_rank > 0) setenv("MESHRT_THREADS", std::to_string(line.threads_of_rank).c_str(), 1);
  const int threads = threads_of_rank();
  const auto body = [&](Rank& rank) {
    const std::unique_ptr<Threads> computing = threads_for(rank, threads);
    if (threads > 1 && rank.rank() == 0) warn_of_threads(rank, threads);
    const RunFile run = read_run_file(line, run_file);
    const int code = perform(line, rank, *make(), run, options);
    if (line.command != Command::train && rank.rank() == 0) require_written(stdout);
    return code;
  };
  if (in_job()) return run_rank(body);
  // Mistakes in the run file are told once, before any rank starts.
  const RunFile run = read_run_file(line, run_file);
  if (line.command == Command::generate) {
    check_generates(info);
    ask_for_prompt(line.generate);
    prompts_of(line.generate);
  } else if (line.command == Command::score) check_generates(info), texts_of(line.generate);
  else check_trains(info);
  if (line.command == Command::train && !line.dry_run) check_trainable(info, run);
  if (line.command == Command::predict) check_predicts(info);
  check_ranks(line, info, argc > 0 ? argv[0] : name);
  if (line.threads) return launch_threads(mesh_size(info), body);
  if (line.ranks > 0) return start_processes(line, run_file);
  return run_rank(body);
}

}  // namespace

int run_main(int argc, char** argv, MakeProgram make, const char* instructions) {
  open_standard_streams();
  try {
    return run(argc, argv, make, instructions);
  } catch (const Failure& failure) {
    std::fflush(stdout);
    tell("error: {}\n", failure.what());
    return exit_code(failure.cause);
  } catch (const std::exception& error) {
    tell("internal error: {}\n", error.what());
    return 70;
  }
}

}  // namespace meshrt
