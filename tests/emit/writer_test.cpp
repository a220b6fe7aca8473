// The writer of C++ text, and names.
#include <gtest/gtest.h>

#include "codegen/emit/cpp_writer.h"
#include "codegen/emit/names.h"
#include "codegen/graph/builder.h"

namespace mesh {
namespace {

TEST(CppWriter, substitutes_names_in_snippets) {
  CppWriter out(1);
  out.print(R"(
    $type$ $name$() {
      return $name$_ + 1;  // 2 $$
    })",
            {{"type", "int"}, {"name", "total"}});
  EXPECT_EQ(out.text(), "  int total() {\n    return total_ + 1;  // 2 $\n  }\n");
}

TEST(CppWriter, refuses_a_name_without_a_value) {
  CppWriter out;
  EXPECT_THROW(out.print("$nothing$;"), std::logic_error);
  EXPECT_THROW(out.print("costs 1$"), std::logic_error);
}

TEST(CppWriter, indents_blocks) {
  CppWriter out;
  {
    const auto outer = out.block("struct A", ";");
    const auto inner = out.block("void f()");
    out.line("g();");
  }
  EXPECT_EQ(out.text(), "struct A {\n  void f() {\n    g();\n  }\n};\n");
}

TEST(CppWriter, breaks_between_the_arguments_of_a_long_call) {
  CppWriter out;
  const std::string argument(40, 'a');
  out.line("call(" + argument + ", {" + argument + ", 1}, " + argument + ");");
  EXPECT_EQ(out.text(), "call(" + argument + ", {" + argument + ", 1},\n     " + argument + ");\n");
}

TEST(CppWriter, breaks_between_what_is_in_the_braces_of_a_long_declaration) {
  CppWriter out;
  const std::string argument(40, 'a');
  out.line("const Owners name{" + argument + ", " + argument + ", " + argument + "};");
  EXPECT_EQ(out.text(),
            "const Owners name{" + argument + ", " + argument + ",\n                  " + argument + "};\n");
  CppWriter with_sign;
  with_sign.line("const Owners name = {" + argument + ", " + argument + ", " + argument + "};");
  EXPECT_EQ(with_sign.text(),
            "const Owners name = {" + argument + ", " + argument + ",\n                     " + argument + "};\n");
}

TEST(CppWriter, breaks_a_long_assignment_after_the_sign) {
  CppWriter out;
  const std::string name(70, 'n');
  out.line("const float " + name + " = " + name + ";");
  EXPECT_EQ(out.text(), "const float " + name + " =\n    " + name + ";\n");
}

TEST(CppWriter, wraps_comments_between_words) {
  CppWriter out;
  std::string text;
  for (int i = 0; i < 40; ++i) text += (i == 0 ? "" : " ") + std::string("word");
  out.comment(text);
  const size_t line_end = out.text().find('\n');
  EXPECT_LE(line_end, CppWriter::width);
  EXPECT_EQ(out.text().substr(line_end + 1, 7), "//   wo");
}

TEST(CppWriter, ends_no_line_where_a_name_in_it_does) {
  CppWriter out;
  out.comment("new\nline.mesh: model M");
  out.table({{"int n = 2;", "new\r\nline.mesh:1"}});
  out.print("f();  // $place$", {{"place", "new\nline.mesh:2"}});
  EXPECT_EQ(out.text(), "// new line.mesh: model M\nint n = 2;  // new  line.mesh:1\nf();  // new line.mesh:2\n");
}

TEST(CppWriter, gives_a_loop_braces_before_a_comment_and_a_directive) {
  CppWriter out;
  out.one("for (;;)", "f();");
  out.comment("next");
  out.directive("#pragma GCC ivdep");
  EXPECT_EQ(out.text(), "for (;;) {\n  f();\n}\n// next\n#pragma GCC ivdep\n");
}

TEST(CppWriter, aligns_comments_of_a_table_where_they_fit) {
  CppWriter out;
  out.table({{"int a;", "first"}, {"int long_name;", "second"}, {"int b;", ""}});
  EXPECT_EQ(out.text(), "int a;          // first\nint long_name;  // second\nint b;\n");
}

TEST(CppWriter, quotes_and_groups) {
  EXPECT_EQ(string_literal("a \"b\" \\"), "\"a \\\"b\\\" \\\\\"");
  EXPECT_EQ(grouped_digits(1234567), "1'234'567");
  EXPECT_EQ(grouped_digits(-1234), "-1'234");
  EXPECT_EQ(grouped_digits(12), "12");
}

TEST(Identifier, is_legal_cpp) {
  EXPECT_EQ(identifier("layer.attn.wq"), "layer_attn_wq");
  EXPECT_EQ(identifier("class"), "class_");
  EXPECT_EQ(identifier("a__b"), "a_b");
  EXPECT_EQ(identifier("2d"), "a2d");
}

}  // namespace
}  // namespace mesh
