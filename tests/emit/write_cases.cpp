// write_cases.cpp: all cases as one C++ file, each program in a namespace, and the specs it came from as a rule of
// make: write_cases OUTPUT DEPFILE.
#include <cstdio>
#include <fstream>

#include "tests/emit/cases.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    std::ofstream out(argv[1]);
    out << "#include \"tests/emit/emitted_cases.h\"\n\n#include \"meshrt/emitted.h\"\n\n";
    for (const mesh::tests::Case& one : mesh::tests::cases())
      out << "namespace case_" << one.name << " {\n"
          << mesh::tests::emitted(one) << "}  // namespace case_" << one.name << "\n\n";
    out << "const std::map<std::string, meshrt::MakeProgram>& emitted_cases() {\n"
           "  static const std::map<std::string, meshrt::MakeProgram> all = {\n";
    for (const mesh::tests::Case& one : mesh::tests::cases())
      out << "    {\"" << one.name << "\", case_" << one.name << "::make},\n";
    out << "  };\n  return all;\n}\n";
    std::ofstream rule(argv[2]);
    rule << argv[1] << ":";
    for (const mesh::tests::Case& one : mesh::tests::cases())
      for (const std::string& file : {one.spec, one.layouts})
        if (!file.empty()) rule << " " << PROJECT_ROOT << "/" << file;
    rule << "\n";
    return out.flush() && rule.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
