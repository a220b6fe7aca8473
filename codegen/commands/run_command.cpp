#include "codegen/commands/run_command.h"

#include <fmt/format.h>

#include <cerrno>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "codegen/commands/help.h"
#include "frontend/diagnostic.h"
#include "frontend/render.h"
#include "frontend/source.h"
#include "frontend/suggest.h"
#include "meshrt/failure.h"
#include "meshrt/standard_streams.h"

namespace mesh {

namespace {

std::string command_line(int argc, char** argv) {
  std::string text = "meshc";
  for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
  return text;
}

int internal_error_banner(const std::string& what, const std::string& line) {
  fmt::print(stderr,
             "meshc: internal error: {}\n"
             "This is a mistake in meshc {}, not in your spec. It happens with\n"
             "  {}\n",
             what, MESHWRIGHT_VERSION, line);
  return exit_internal;
}

bool output_failed() { return std::ferror(stdout) != 0 || std::ferror(stderr) != 0; }

/// Without fmt::print, which throws where stderr is full too.
int cannot_write(const std::string& why) {
  std::fputs(("error: cannot write the output: " + why + "\n").c_str(), stderr);
  return exit_run;
}

/// Whether errors are told as JSON. Asked of the arguments as they stand, since the parser may have stopped before.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--diagnostics=json") return true;
    if (argument == "--diagnostics" && i + 1 < argc && argv[i + 1] == std::string_view("json")) return true;
  }
  return false;
}

/// What is wrong with a file that is no spec, with the machine or with the call, in the form that diagnostics have.
void say_error(bool as_json, const std::string& what, const std::string& help = "") {
  if (!as_json) return fmt::print(stderr, "error: {}\n{}", what, help.empty() ? "" : "help: " + help + "\n");
  Diagnostic failure;
  failure.message = what;
  if (!help.empty()) failure.helps.push_back(help);
  fmt::print(stderr, "{}\n", render_json(failure, SourceMap()));
}

int run(const std::vector<Command>& commands, int argc, char** argv) {
  CLI::App app("", "meshc");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("meshc ") + MESHWRIGHT_VERSION);
  set_main_help(app, commands);
  std::map<const CLI::App*, std::function<int()>> bodies;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    bodies[sub] = command.declare(*sub);
    set_command_help(*sub, command);
  }
  if (argc == 1) {
    fmt::print(stderr, "{}", app.help());
    return exit_usage;
  }
  const bool as_json = wants_json(argc, argv);
  try {
    app.parse(argc, argv);
    return bodies.at(app.get_subcommands().front())();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    if (app.get_subcommands().empty() && *argv[1] != '-') {
      std::vector<std::string> names;
      names.reserve(commands.size());
      for (const Command& command : commands) names.push_back(command.name);
      const auto near = did_you_mean(argv[1], names);
      say_error(
          as_json,
          fmt::format("there is no command `{}`{}", argv[1], near ? fmt::format("; did you mean `{}`?", *near) : ""),
          "`meshc --help` lists them");
      return exit_usage;
    }
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    say_error(
        as_json, error.what(),
        fmt::format("`meshc{} --help` shows what there is", chosen.empty() ? "" : " " + chosen.front()->get_name()));
    return exit_usage;
  } catch (const UsageError& error) {
    say_error(as_json, error.what());
    return exit_usage;
  } catch (const meshrt::Failure& failure) {
    say_error(as_json, failure.what());
    return meshrt::exit_code(failure.cause);
  } catch (const std::filesystem::filesystem_error& error) {
    say_error(as_json, error.what());
    return meshrt::exit_code(meshrt::Cause::environment);
  } catch (const std::exception& error) {
    if (output_failed()) throw;
    return internal_error_banner(error.what(), command_line(argc, argv));
  }
}

}  // namespace

int run_command(const std::vector<Command>& commands, int argc, char** argv) {
  meshrt::open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not be so large is an error with its name
  try {
    const int code = run(commands, argc, argv);
    errno = 0;
    if (std::fflush(stdout) == 0 && !output_failed()) return code;
    return cannot_write(std::strerror(errno == 0 ? EIO : errno));
  } catch (const std::system_error& error) {  // of fmt::print
    return cannot_write(error.code().message());
  }
}

}  // namespace mesh
