// How diagnostics look, and how the sink keeps them.
#include "frontend/render.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "frontend/suggest.h"
#include "frontend/utf8.h"

namespace mesh {

namespace {

class Render : public testing::Test {
 protected:
  Span span(const std::string& text) const {
    const auto begin = static_cast<std::uint32_t>(sources_.text(file_).find(text));
    return Span{file_, begin, begin + static_cast<std::uint32_t>(text.size())};
  }
  void use(const std::string& text) { file_ = sources_.add("gpt.mesh", text); }
  std::string text(RenderOptions options = {}) const {
    return render_text(sink_.diagnostics().at(0), sources_, options);
  }

  SourceMap sources_;
  DiagnosticSink sink_;
  FileId file_ = 0;
};

TEST_F(Render, SeveralLabelsOnALine) {
  use("model M {\n  return dot[embed](h, down)\n}\n");
  sink_.error("E0301", span("embed"), "cannot contract over `{}`: `{}` does not have it", "embed", "down")
      .label(span("h, down").size() == 7 ? Span{file_, span("h, down").begin, span("h, down").begin + 1} : Span{},
             "f32[batch, seq, embed]")
      .label(span("down"), "{}", "f32[ffn, hidden]")
      .note("the operands share no dim, so there is nothing to contract")
      .help("`h` may be missing the projection to `ffn`");
  EXPECT_EQ(text(),
            "error[E0301]: cannot contract over `embed`: `down` does not have it\n"
            " --> gpt.mesh:2:14\n"
            "2 |   return dot[embed](h, down)\n"
            "  |              ^^^^^  -  ---- f32[ffn, hidden]\n"
            "  |                     f32[batch, seq, embed]\n"
            "  = note: the operands share no dim, so there is nothing to contract\n"
            "  = help: `h` may be missing the projection to `ffn`\n");
}

TEST_F(Render, HangingLabelsAreConnected) {
  use("a + b + c\n");
  sink_.error("E0303", span("a"), "sizes differ").here("first").label(span("b"), "second").label(span("c"), "third");
  EXPECT_EQ(text(),
            "error[E0303]: sizes differ\n"
            " --> gpt.mesh:1:1\n"
            "1 | a + b + c\n"
            "  | ^   -   - third\n"
            "  | |   second\n"
            "  | first\n");
}

TEST_F(Render, LinesApart) {
  use("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n");
  sink_.error("E0401", span("ten"), "far apart").label(span("one"), "first").label(span("three"), "third");
  EXPECT_EQ(text(),
            "error[E0401]: far apart\n"
            "  --> gpt.mesh:10:1\n"
            "1  | one\n"
            "   | --- first\n"
            "2  | two\n"
            "3  | three\n"
            "   | ----- third\n"
            "...\n"
            "10 | ten\n"
            "   | ^^^\n");
}

TEST_F(Render, SeveralLines) {
  use("block A(\n  x : real\n) -> real {\n}\n");
  sink_.error("E0210", Span{file_, 0, 32}, "head").here("this head");
  EXPECT_EQ(text(),
            "error[E0210]: head\n"
            " --> gpt.mesh:1:1\n"
            "1 | block A(\n"
            "  | ^^^^^^^^\n"
            "2 |   x : real\n"
            "3 | ) -> real {\n"
            "  | ^^^^^^^^^^^ this head\n");
}

TEST_F(Render, TabsAndWideCharacters) {
  use("\tx = \"漢字é\" + y\n");
  sink_.error("E0101", span("y"), "here").label(span("\"漢字é\""), "text");
  EXPECT_EQ(text(),
            "error[E0101]: here\n"
            " --> gpt.mesh:1:14\n"
            "1 |     x = \"漢字é\" + y\n"
            "  |         -------   ^\n"
            "  |         text\n");
}

TEST_F(Render, LongLinesAreCut) {
  use(std::string(200, 'a') + " target " + std::string(200, 'b') + "\n");
  sink_.error("E0101", span("target"), "long").here("this");
  EXPECT_EQ(text({false, 40, 20}),
            "error[E0101]: long\n"
            " --> gpt.mesh:1:202\n"
            "1 | ... aaaaaaaaa target bbbbbbbbbbbbbbbbbbbbbbb ...\n"
            "  |               ^^^^^^ this\n");
}

TEST_F(Render, WithoutAPlace) {
  sink_.warning("", Span{}, "no file").note("two\nlines");
  EXPECT_EQ(text(), "warning: no file\n = note: two\n         lines\n");
}

TEST_F(Render, EndOfFileWithoutNewline) {
  use("dim x =");
  sink_.error("E0101", Span{file_, 7, 7}, "end");
  EXPECT_EQ(text(), "error[E0101]: end\n --> gpt.mesh:1:8\n1 | dim x =\n  |        ^\n");
}

TEST_F(Render, Colours) {
  use("x\n");
  sink_.error("E0101", span("x"), "m").here("l");
  EXPECT_EQ(text({true, 80, 20}),
            "\x1b[1;31merror[E0101]\x1b[0m\x1b[1m: m\x1b[0m\n \x1b[1;34m-->\x1b[0m gpt.mesh:1:1\n"
            "\x1b[1;34m1 |\x1b[0m x\n\x1b[1;34m  |\x1b[0m \x1b[1;31m^\x1b[0m \x1b[1;31ml\x1b[0m\n");
}

TEST_F(Render, Json) {
  use("dim x 4\nmesh\n");
  sink_.error("E0108", span("4"), "missing `=`")
      .here("\"here\"")
      .label(span("4\nmesh"), "é")
      .fix(span("4"), "= 4")
      .note("n");
  const std::string line = render_json(sink_.diagnostics().at(0), sources_);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["level"], "error");
  EXPECT_EQ(json["code"], "E0108");
  EXPECT_EQ(json["spans"][0]["line"], 1);
  EXPECT_EQ(json["spans"][0]["col"], 7);
  EXPECT_EQ(json["spans"][0]["primary"], true);
  EXPECT_EQ(json["spans"][1]["end_line"], 2);
  EXPECT_EQ(json["spans"][1]["end_col"], 5);
  EXPECT_EQ(json["fixes"][0]["text"], "= 4");
  EXPECT_EQ(json["notes"][0], "n");
}

TEST_F(Render, SortedWithoutDuplicatesAndLimited) {
  use("one two three\n");
  sink_.error("E0002", span("two"), "second");
  sink_.error("E0001", span("one"), "first");
  sink_.error("E0002", span("two"), "second");
  sink_.error("E0003", span("three"), "third");
  ASSERT_EQ(sink_.diagnostics().size(), 3U);
  EXPECT_EQ(sink_.diagnostics()[0].message, "first");
  EXPECT_NE(render_all(sink_, sources_, {false, 80, 2}).find("... and 1 more error\n"), std::string::npos);
}

TEST_F(Render, Lints) {
  sink_.lint("idle_mesh_axis", Span{}, "warned").note("as by default");
  EXPECT_FALSE(sink_.has_errors());
  EXPECT_TRUE(sink_.set_lint_level("idle_mesh_axis", LintLevel::allow));
  sink_.lint("idle_mesh_axis", Span{}, "not said").note("nor this");
  EXPECT_TRUE(sink_.set_lint_level("idle_mesh_axis", LintLevel::deny));
  sink_.lint("idle_mesh_axis", Span{}, "denied");
  EXPECT_EQ(sink_.diagnostics().size(), 2U);
  EXPECT_EQ(sink_.error_count(), 1U);
  EXPECT_FALSE(sink_.set_lint_level("idle_mesh_axes", LintLevel::deny));
  EXPECT_THROW(sink_.lint("no_such_lint", Span{}, "x"), std::logic_error);
  EXPECT_EQ(sink_.lint_level("batch_coupled"), LintLevel::deny);
}

TEST(Suggest, NearNamesOnly) {
  EXPECT_EQ(edit_distance("hidden", "hiden"), 1U);
  EXPECT_EQ(edit_distance("batch", "bacth"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(did_you_mean("hiden", {"heads", "hidden"}), "hidden");
  EXPECT_EQ(did_you_mean("vocabulary", {"vocab", "batch"}), std::nullopt);
  EXPECT_EQ(did_you_mean("x", {"y", "z"}), std::nullopt);
  EXPECT_EQ(did_you_mean("X", {"w", "x"}), "x");
  EXPECT_EQ(did_you_mean("GELU", {"elu", "gelu"}), "gelu");
  EXPECT_EQ(did_you_mean("Adamw", {"adam", "AdamW", "adamw"}), "AdamW");
  EXPECT_EQ(did_you_mean("w3", {"w1", "w2"}), "w1");
}

TEST(Utf8, WidthsAndStrayBytes) {
  EXPECT_EQ(display_width("aé漢"), 4);
  EXPECT_EQ(printable("a\x07\xFF"), "a\\x07\\xFF");
  EXPECT_FALSE(decode_utf8("\xC0\x80", 0).valid);
  EXPECT_FALSE(decode_utf8("\xED\xA0\x80", 0).valid);
  EXPECT_EQ(decode_utf8(encode_utf8(0x1F600), 0).value, 0x1F600U);
}

}  // namespace

}  // namespace mesh
