// write_new_op.cpp: the programs of new_op.h as one C++ file, each in a namespace.
#include <cstdio>

#include "tests/emit/new_op.h"

int main() {
  std::printf("#include \"tests/emit/emitted_cases.h\"\n\n#include \"meshrt/emitted.h\"\n\n");
  for (const mesh::tests::NewOpCase& one : mesh::tests::new_op_cases())
    std::printf("namespace case_%s {\n%s}\n\n", one.name.c_str(), mesh::tests::neighbours_emitted(one).c_str());
  std::printf(
      "const std::map<std::string, meshrt::MakeProgram>& emitted_cases() {\n"
      "  static const std::map<std::string, meshrt::MakeProgram> all = {\n");
  for (const mesh::tests::NewOpCase& one : mesh::tests::new_op_cases())
    std::printf("    {\"%s\", case_%s::make},\n", one.name.c_str(), one.name.c_str());
  std::printf("  };\n  return all;\n}\n");
}
