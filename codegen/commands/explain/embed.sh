#!/bin/sh
# Writes the texts as a C++ table: embed.sh OUTPUT FILE.md...
set -eu
output=$1
shift
{
  echo '// Written by codegen/commands/explain/embed.sh.'
  echo '#include "codegen/commands/explanations.h"'
  echo 'const std::vector<std::string_view>& mesh::explanation_files() {'
  echo '  static const std::vector<std::string_view> files = {'
  for file in "$@"; do
    printf '    R"explain('
    cat "$file"
    echo ')explain",'
  done
  echo '  };'
  echo '  return files;'
  echo '}'
} > "$output"
