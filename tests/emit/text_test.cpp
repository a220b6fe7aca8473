// Emitted text: formatted as written, the same twice, without absolute paths, as long for many layers as for few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/emit/emit_program.h"
#include "tests/emit/cases.h"

namespace mesh::tests {
namespace {

const Case& find_case(const std::string& name) { return *std::ranges::find(cases(), name, &Case::name); }

size_t lines_of(const std::string& text) { return static_cast<size_t>(std::ranges::count(text, '\n')); }

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
  constexpr size_t most_lines = 1100;  // of the plain data-parallel layout
  for (const char* name : {"gpt_data", "gpt_megatron"}) {
    const Case two = find_case(name);
    Case many = two;
    many.set["layer"] = "96";
    EXPECT_EQ(lines_of(emitted(two)), lines_of(emitted(many))) << name;
  }
  EXPECT_LE(lines_of(emitted(find_case("gpt_data"))), most_lines);
}

/// A gradient that relu lets through or not is read in either case: reading it in a branch, a loop would not become
/// vector instructions.
TEST(Text, reads_what_a_condition_lets_through_without_a_branch) {
  const std::string text = emitted(find_case("windows_samples"));
  EXPECT_NE(text.find("meshrt::where<float>("), std::string::npos);
  for (size_t at = 0; (at = text.find("> 0.0f ? ", at)) != std::string::npos; ++at)
    EXPECT_EQ(text.substr(at, text.find(';', at) - at).find('['), std::string::npos) << text.substr(at, 80);
}

/// Gradients of gains and biases are sums over the rows that threads share; those of positions over batches, by
/// columns.
TEST(Text, threads_share_rows_that_add_to_sums) {
  Case gpt = find_case("gpt_one");
  gpt.set.clear();  // sizes at which there is work for several
  const std::string text = emitted(gpt);
  for (const char* part :
       {"const auto sums = meshrt::sums_from_zero(embed, d_norm2_bias[l], d_norm2_gain[l]);\n"
        "      sums.each(batch * seq, 31, [&](int64_t i, float* to_d_norm2_bias, float* to_d_norm2_gain) {",
        "to_d_norm2_gain[e] += ", "meshrt::share(seq * embed, 1024, [&](int64_t begin, int64_t end) {",
        "for (int64_t i = begin; i < end; ++i) d_wpe[i] += "})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

/// Of gradients of lookups too, which are calls of their own.
TEST(Text, looks_at_what_a_lookup_gives_back) {
  const Case& gpt = find_case("gpt_one");
  SourceMap sources;
  const Compiled program = compiled(gpt, sources);
  const std::string text = emit_program(program.program, sources, {"gpt.mesh", "0", "meshc build", "0.0", "f32", true});
  size_t looked_up = 0;
  for (size_t call = 0; (call = text.find("scatter_add(", call)) != std::string::npos; ++call, ++looked_up) {
    const size_t after = text.find(";\n", call) + 2;
    const std::string next = text.substr(after, text.find('\n', after) - after);
    EXPECT_NE(next.find("check_finite"), std::string::npos) << next;
  }
  EXPECT_GT(looked_up, 0u);
}

}  // namespace
}  // namespace mesh::tests
