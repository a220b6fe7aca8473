#!/bin/sh
# Writes texts as a C++ function that gives them: embed.sh OUTPUT HEADER FUNCTION FILE...
set -eu
output=$1 header=$2 function=$3
shift 3
{
  echo '// Written by codegen/embed.sh.'
  echo "#include \"$header\""
  echo "const std::vector<std::string_view>& $function() {"
  echo '  static const std::vector<std::string_view> files = {'
  for file in "$@"; do
    printf '    R"text('
    cat "$file"
    echo ')text",'
  done
  echo '  };'
  echo '  return files;'
  echo '}'
} > "$output"
