// help.h: the help of meshc and its commands: examples first, then what there is.
#pragma once
#include <memory>

#include "codegen/commands/command.h"

namespace CLI {  // NOLINT(readability-identifier-naming): it is the library's
class App;
}

namespace mesh {

/// Gives the application the list of commands as its help, and each subcommand its examples and options.
void set_main_help(CLI::App& app, const std::vector<Command>& commands);
void set_command_help(CLI::App& app, const Command& command);

}  // namespace mesh
