// Emitted text: goldens (UPDATE_GOLDENS=1 writes them anew), formatted as written, the same twice, as long for many
// layers as for few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/emit/cases.h"

namespace mesh::tests {
namespace {

const Case& find_case(const std::string& name) { return *std::ranges::find(cases(), name, &Case::name); }

size_t lines_of(const std::string& text) { return static_cast<size_t>(std::ranges::count(text, '\n')); }

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(PROJECT_ROOT) + "/tests/emit/goldens/" + name + ".cpp";
  if (std::getenv("UPDATE_GOLDENS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), text) << "run with UPDATE_GOLDENS=1 to accept";
}

TEST(Text, mlp_whole_golden) { expect_golden("mlp_whole", emitted(find_case("mlp_whole"))); }

TEST(Text, mlp_data_uneven_golden) { expect_golden("mlp_data_uneven", emitted(find_case("mlp_data_uneven"))); }

class Formatted : public testing::TestWithParam<Case> {};

TEST_P(Formatted, as_clang_format_would) {
  if (std::system("clang-format --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no clang-format";
  const std::filesystem::path path = std::filesystem::temp_directory_path() / ("emitted_" + GetParam().name + ".cpp");
  std::ofstream(path) << emitted(GetParam());
  const std::string command =
      "clang-format --style=file:" PROJECT_ROOT "/.clang-format --dry-run --Werror " + path.string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::filesystem::remove(path);
}

TEST_P(Formatted, the_same_twice_within_the_width) {
  const std::string text = emitted(GetParam());
  EXPECT_EQ(text, emitted(GetParam()));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 125u) << line;  // `·` counts two bytes
  EXPECT_EQ(text.find(PROJECT_ROOT), std::string::npos) << "an absolute path";
}

INSTANTIATE_TEST_SUITE_P(All, Formatted, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name; });

TEST(Text, gpt_is_as_long_for_96_layers_as_for_2) {
  Case two = find_case("gpt_megatron"), many = two;
  many.set["layer"] = 96;
  const size_t lines = lines_of(emitted(two));
  EXPECT_EQ(lines, lines_of(emitted(many)));
  EXPECT_LE(lines, 700u);
}

}  // namespace
}  // namespace mesh::tests
