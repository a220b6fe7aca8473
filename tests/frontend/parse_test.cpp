// The grammar reads every spec in one way only, and what it reads is what is written.
#include <gtest/gtest.h>

#include <cctype>

#include "frontend/print_ast.h"
#include "tests/frontend/fixtures.h"

namespace mesh {

namespace {

std::string text_of(const std::filesystem::path& path) {
  SourceMap sources;
  std::string error;
  const auto file = sources.load(path.string(), error);
  EXPECT_TRUE(file) << path << ": " << error;
  return std::string(sources.text(*file));
}

template <class T>
const T& only(const Parsed& parsed) {
  EXPECT_EQ(parsed.messages(), "");
  return std::get<T>(parsed.ast.decls.at(0).node);
}

// The first statement of a model, given as text.
const ast::Statement& statement(const Parsed& parsed) { return only<ast::Model>(parsed).body.at(0); }

std::string model(const std::string& body) { return "model M {\n" + body + "\n}\n"; }

TEST(Parse, SpecsHaveNoErrorsAndNoAmbiguities) {
  ASSERT_GE(mesh_files("specs").size(), 8U);
  for (const auto& path : mesh_files("specs")) {
    const Parsed parsed(text_of(path));
    EXPECT_EQ(parsed.messages(), "") << path;
    EXPECT_FALSE(parsed.ast.decls.empty()) << path;
    SourceMap sources;
    const auto ambiguities = find_ambiguities(sources.add(path.string(), text_of(path)), sources);
    EXPECT_TRUE(ambiguities.empty()) << path << ": " << ambiguities.front();
  }
}

TEST(Parse, PrintedSpecsParseToTheSameText) {
  for (const auto& path : mesh_files("specs")) {
    const Parsed first(text_of(path));
    const std::string printed = print(first.ast);
    const Parsed second(printed);
    EXPECT_EQ(second.messages(), "") << path;
    EXPECT_EQ(print(second.ast), printed) << path;
  }
}

// Printing loses nothing but comments, line ends and how a file is laid out.
TEST(Parse, PrintedSpecsHaveTheSameTokens) {
  const auto essence = [](const std::string& text) {
    std::string kept;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text.compare(at, 2, "//") == 0) at = text.find('\n', at);
      const bool separator =
          text[at] == ';' || text[at] == ',' || std::isspace(static_cast<unsigned char>(text[at])) != 0;
      if (!separator) kept += text[at];
    }
    return kept;
  };
  for (const auto& path : mesh_files("specs")) {
    EXPECT_EQ(essence(print(Parsed(text_of(path)).ast)), essence(text_of(path))) << path;
  }
}

TEST(Parse, SpansAreThoseOfTheText) {
  const Parsed parsed(model("  é_is_fine : f32 = 1  // é\n  q = dot[embed](x, w)").replace(12, 2, "e"));
  const auto& body = only<ast::Model>(parsed).body;
  EXPECT_EQ(parsed.sources.text(body.at(1).span), "q = dot[embed](x, w)");
  const auto& bind = std::get<ast::Bind>(body.at(1).node);
  EXPECT_EQ(parsed.sources.text(bind.value->span), "dot[embed](x, w)");
  const auto& call = std::get<ast::Call>(bind.value->node);
  EXPECT_EQ(parsed.sources.text(call.items.at(0).pick.name().span), "embed");
  EXPECT_EQ(parsed.sources.text(call.arguments.at(1).span), "w");
  EXPECT_EQ(parsed.sources.text(parsed.ast.comments.at(0).span), "// é");
}

TEST(Parse, Precedence) {
  const auto tree = [](const std::string& text) {
    const Parsed parsed("require " + text);
    std::string shape;
    const auto visit = [&](const auto& self, const ast::Expr& expr) -> void {
      const auto both = [&](const auto& infix) {
        shape += '(';
        self(self, *infix.left);
        shape += spelling(infix.op);
        self(self, *infix.right);
        shape += ')';
      };
      if (const auto* binary = ast::as<ast::Binary>(expr)) return both(*binary);
      if (const auto* compare = ast::as<ast::Compare>(expr)) return both(*compare);
      if (const auto* logical = ast::as<ast::Logical>(expr)) return both(*logical);
      if (const auto* unary = ast::as<ast::Unary>(expr)) {
        shape += '(';
        shape += spelling(unary->op);
        self(self, *unary->operand);
        shape += ')';
        return;
      }
      shape += print(expr);
    };
    visit(visit, *only<ast::Require>(parsed).condition);
    return shape;
  };
  EXPECT_EQ(tree("a + b * c"), "(a+(b*c))");
  EXPECT_EQ(tree("a - b - c"), "((a-b)-c)");
  EXPECT_EQ(tree("a ^ b ^ c"), "(a^(b^c))");
  EXPECT_EQ(tree("-a ^ 2"), "(-(a^2))");
  EXPECT_EQ(tree("2 ^ -1 * n"), "((2^(-1))*n)");
  EXPECT_EQ(tree("not a == b and c or d"), "(((not(a==b))andc)ord)");
  EXPECT_EQ(tree("a + 1 < b % 2"), "((a+1)<(b%2))");
}

TEST(Parse, Items) {
  const auto kind = [](const std::string& item) {
    const Parsed parsed(model("y = x[" + item + "]"));
    const auto& bind = std::get<ast::Bind>(statement(parsed).node);
    return std::get<ast::Index>(bind.value->node).items.at(0).kind();
  };
  EXPECT_EQ(kind("..."), ast::ItemKind::rest);
  EXPECT_EQ(kind("seq"), ast::ItemKind::dim);
  EXPECT_EQ(kind("kv * group"), ast::ItemKind::dim);
  EXPECT_EQ(kind("seq as key"), ast::ItemKind::rename);
  EXPECT_EQ(kind("heads as kv * group"), ast::ItemKind::split);
  EXPECT_EQ(kind("kv * group as heads"), ast::ItemKind::merge);
  EXPECT_EQ(kind("cls + patch as token"), ast::ItemKind::concat);
  EXPECT_EQ(kind("x - 2"), ast::ItemKind::shift);
  EXPECT_EQ(kind("token = 0"), ast::ItemKind::select);
  EXPECT_EQ(kind("token = 1.."), ast::ItemKind::slice);
  EXPECT_EQ(kind("token = 1..8 step 2 as patch"), ast::ItemKind::slice);
  EXPECT_EQ(kind("h: ky stride 2 as h2"), ast::ItemKind::window);
}

TEST(Parse, Casts) {
  const Parsed parsed(model("y = index(vocab)(x + 1)"));
  const auto& cast = std::get<ast::Cast>(std::get<ast::Bind>(statement(parsed).node).value->node);
  EXPECT_EQ(cast.index_of.text, "vocab");
  EXPECT_EQ(print(*cast.value), "x + 1");
}

TEST(Parse, LinesGoOnOnlyWhereTheyMust) {
  const auto statements = [](const std::string& body) {
    const Parsed parsed(model(body));
    return only<ast::Model>(parsed).body.size();
  };
  EXPECT_EQ(statements("a = b\n  + c"), 1U);
  EXPECT_EQ(statements("a = b +\n  // why\n\n  c"), 1U);
  EXPECT_EQ(statements("a = b\n  // why\n  and c"), 1U);
  EXPECT_EQ(statements("a = f(b,\n\n c\n)\nd = e"), 2U);
  EXPECT_EQ(statements("a = b\norder = c\nandy = d"), 3U);
  EXPECT_EQ(statements("a = b; c = d;; e = f"), 3U);
  EXPECT_EQ(statements("repeat x { a = b }\n\n\n// end"), 1U);
  EXPECT_EQ(statements("repeat x\n{\n}"), 1U);
}

TEST(Parse, StarsOfPatternsDoNotJoinLines) {
  const Parsed parsed("mesh m { data: *\n model: 2 }\nlayout l on m {\n in enc.* { a -> b }\n}\n" +
                      model("minimize l over a.*\nb = c\nminimize l with s() {\n **.x { a: 1 }\n *.y { a: 1 }\n}"));
  EXPECT_NE(parsed.messages().find("expected `with`"), std::string::npos) << parsed.messages();
  EXPECT_EQ(parsed.sink.error_count(), 1U) << parsed.messages();
  const auto& axes = std::get<ast::Mesh>(parsed.ast.decls.at(0).node).axes;
  ASSERT_EQ(axes.size(), 2U);
  EXPECT_EQ(axes[0].size, nullptr);
}

// A word or a sign too few or too many, here and there, is one message, and never many.
TEST(Parse, OneMistakeIsNotManyErrors) {
  std::size_t mistakes = 0, single = 0;
  for (const auto& path : mesh_files("specs")) {
    const std::string text = text_of(path);
    const auto word = [&](std::size_t at) {
      return std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_';
    };
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at + 1;
      while (word(at) && end < text.size() && word(end)) ++end;
      if (text.compare(at, 2, "//") == 0) {
        end = text.find('\n', at);
      } else if (std::isspace(static_cast<unsigned char>(text[at])) == 0) {
        for (const bool twice : {false, true}) {
          if (++mistakes % 7 != 0) continue;
          const Parsed parsed(text.substr(0, twice ? end : at) + " " + text.substr(twice ? at : end));
          EXPECT_LE(parsed.sink.error_count(), 3U) << path << "\n" << parsed.messages();
          single += parsed.sink.error_count() <= 1 ? 1 : 0;
        }
      }
      at = end;
    }
  }
  EXPECT_GE(single * 100, mistakes / 7 * 97);
}

// Any prefix of a file is survived, and what stands before the last line is kept.
TEST(Parse, UnfinishedFiles) {
  const std::string text = text_of(std::string(FIXTURES) + "/specs/constructs.mesh");
  const std::size_t complete = Parsed(text).ast.decls.size();
  for (std::size_t size = 0; size < text.size(); size += 3) {
    const Parsed parsed(text.substr(0, size));
    EXPECT_LE(parsed.ast.decls.size(), complete);
    EXPECT_LE(parsed.sink.error_count(), 4U) << parsed.messages();
  }
  EXPECT_EQ(Parsed("dim a = 1\ndim b = (\n").ast.decls.size(), 1U);
}

TEST(Parse, WhatFailedIsLeftOutAndTheRestStays) {
  const Parsed parsed(
      "dim x 4\nmodel M {\n a = 1\n b = = 2\n c = 3\n}\nmesh m { data 2 }\nlayout l on m { a > b; c -> d }\n");
  EXPECT_EQ(parsed.sink.error_count(), 4U) << parsed.messages();
  ASSERT_EQ(parsed.ast.decls.size(), 2U);
  EXPECT_EQ(print(parsed.ast), "model M {\n  a = 1\n  c = 3\n}\n\nlayout l on m {\n  c -> d\n}\n");
}

TEST(Parse, DeepNestingIsAnErrorNotACrash) {
  const std::size_t many = 100'000;
  std::string chain = "require a", minus(many, '-');
  for (std::size_t at = 0; at < many; ++at) chain += " + a";
  for (const std::string& text :
       {std::string(many, '('), "require " + std::string(many, '(') + "a" + std::string(many, ')'),
        std::string(many, '{'), "require " + minus + "a", chain, "require a" + std::string(many, '[')}) {
    const Parsed parsed(text);
    EXPECT_TRUE(parsed.sink.has_errors());
    EXPECT_LE(parsed.sink.error_count(), 3U) << parsed.messages().substr(0, 2000);
  }
}

TEST(Parse, ByteOrderMarkAndCarriageReturns) {
  const Parsed parsed(
      "\xEF\xBB\xBF"
      "dim a = 1\r\ndim b = 2\r\n");
  EXPECT_EQ(parsed.messages(), "");
  EXPECT_EQ(parsed.ast.decls.size(), 2U);
}

}  // namespace

}  // namespace mesh
