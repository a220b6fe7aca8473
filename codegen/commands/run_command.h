// run_command.h: finds the subcommand that a command line names, runs it, and turns what went wrong into an exit code.
#pragma once
#include <vector>

#include "codegen/commands/command.h"

namespace mesh {

int run_command(const std::vector<Command>&, int argc, char** argv);

}  // namespace mesh
