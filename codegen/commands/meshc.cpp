// meshc.cpp: the command `meshc`.
#include "codegen/commands/run_command.h"

int main(int argc, char** argv) { return mesh::run_command(mesh::commands(), argc, argv); }
