#!/bin/sh
# Writes the library's modules as a C++ table: embed.sh OUTPUT MODULE.mesh...
set -eu
output=$1
shift
{
  echo '// Written by frontend/std/embed.sh.'
  echo '#include "frontend/library.h"'
  echo 'const std::vector<mesh::LibraryModule>& mesh::library() {'
  echo '  static const std::vector<LibraryModule> modules = {'
  for file in "$@"; do
    printf '    {"std.%s", R"mesh(' "$(basename "$file" .mesh)"
    cat "$file"
    echo ')mesh"},'
  done
  echo '  };'
  echo '  return modules;'
  echo '}'
} > "$output"
