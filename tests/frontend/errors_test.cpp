// The exact text of syntax errors: errors/NAME.mesh gives errors/NAME.txt. UPDATE_GOLDENS=1 writes the texts anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/frontend/fixtures.h"

namespace mesh {

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(SyntaxErrors, Goldens) {
  ASSERT_GE(mesh_files("errors").size(), 12U);
  for (const auto& path : mesh_files("errors")) {
    const Parsed parsed(read(path), path.filename().string());
    const auto golden = std::filesystem::path(path).replace_extension(".txt");
    if (std::getenv("UPDATE_GOLDENS") != nullptr) std::ofstream(golden) << parsed.messages();
    EXPECT_TRUE(parsed.sink.has_errors()) << path;
    EXPECT_EQ(parsed.messages(), read(golden)) << path << ": run with UPDATE_GOLDENS=1 to accept";
  }
}

// What an editor applies makes the file right.
TEST(SyntaxErrors, FixesCureTheMistake) {
  for (const std::string text :
       {"dim x 4\n", "dim x == 4\n", "mesh m { data 2 }\n", "layout l on m { a > b }\n", "layout l on m { a => b }\n",
        "layout l on m { a -> b, c -> d }\n", "model M { x := 3 }\n", "model M { x = y ** 2 }\n",
        "model M { x = f(a = 2) }\n", "model M { x = f(a; b) }\n", "model M { x = f(a] }\n", "require a = b\n",
        "modle M { }\n", "model M\n  x = 3\n}\n"}) {
    const Parsed parsed(text);
    const auto diagnostics = parsed.sink.diagnostics();
    ASSERT_EQ(diagnostics.size(), 1U) << parsed.messages();
    ASSERT_EQ(diagnostics[0].fixes.size(), 1U) << parsed.messages();
    const Fix& fix = diagnostics[0].fixes[0];
    std::string cured = text;
    cured.replace(fix.span.begin, fix.span.size(), fix.text);
    EXPECT_EQ(Parsed(cured).messages(), "") << cured;
  }
}

}  // namespace

}  // namespace mesh
