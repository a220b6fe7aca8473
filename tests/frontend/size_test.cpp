// Size expressions: exact values, and errors with names and numbers.
#include "frontend/size.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/frontend/fixtures.h"

namespace mesh {

namespace {

class Size : public testing::Test {
 protected:
  // The expression's value as text, or the code of its error.
  std::string value(const std::string& text) {
    const Parsed parsed("dim it = " + text + "\n");
    DiagnosticSink sink;
    const auto result = evaluate_number(expression(parsed), scope(), sink);
    return result ? result->text() : sink.has_errors() ? sink.diagnostics().at(0).code : "nothing";
  }

  std::string size_error(const std::string& text) {
    const Parsed parsed("dim it = " + text + "\n");
    DiagnosticSink sink;
    EXPECT_FALSE(evaluate_size(expression(parsed), scope(), sink, "dim `it`"));
    return render_all(sink, parsed.sources);
  }

  std::string require_error(const std::string& text) {
    const Parsed parsed("require " + text + "\n");
    DiagnosticSink sink;
    const bool holds = check_require(std::get<ast::Require>(parsed.ast.decls.at(0).node), scope(), sink);
    EXPECT_TRUE(holds || sink.has_errors());
    return render_all(sink, parsed.sources);
  }

  static const ast::Expr& expression(const Parsed& parsed) {
    EXPECT_EQ(parsed.messages(), "");
    return *std::get<ast::Dims>(parsed.ast.decls.at(0).node).dims.at(0).size;
  }

  SizeScope scope() {
    return {[this](const std::string& name) -> std::optional<NamedSize> {
              if (name == "poisoned") return NamedSize{};
              const auto found = sizes_.find(name);
              if (found == sizes_.end()) return std::nullopt;
              const bool set = name == "heads";
              return NamedSize{found->second, Span{},
                               set ? "heads = 12 was set by --set, over `heads = 16` on line 7" : ""};
            },
            [this] {
              std::vector<std::string> names;
              for (const auto& [name, unused] : sizes_) names.push_back(name);
              return names;
            }};
  }

  std::map<std::string, Rational> sizes_ = {
      {"embed", 1024}, {"heads", 12}, {"head_dim", 64}, {"huge", 9'000'000'000'000'000'000}, {"zero", 0}};
};

TEST_F(Size, Arithmetic) {
  EXPECT_EQ(value("4 * embed"), "4096");
  EXPECT_EQ(value("50_257"), "50257");
  EXPECT_EQ(value("embed / 2 - 1"), "511");
  EXPECT_EQ(value("2 ^ 10 ^ 1"), "1024");
  EXPECT_EQ(value("-heads + 13"), "1");
  EXPECT_EQ(value("7 % 4"), "3");
  EXPECT_EQ(value("-7 % 4"), "1");
  EXPECT_EQ(value("min(heads, 3, head_dim) + max(1, 2)"), "5");
  EXPECT_EQ(value("size[embed] + (1)"), "1025");
  EXPECT_EQ(value("1e3"), "1000");
}

TEST_F(Size, FractionsAreExact) {
  EXPECT_EQ(value("ceil(1.25 * 2 * 16 * 4096 / (16 * 8))"), "1280");
  EXPECT_EQ(value("ceil(1 / 3 + 2 / 3)"), "1");
  EXPECT_EQ(value("floor(-7 / 2)"), "-4");
  EXPECT_EQ(value("ceil(-7 / 2)"), "-3");
  EXPECT_EQ(value("1.25 * 4"), "5");
  EXPECT_EQ(value("0.1 + 0.2"), "0.3");
  EXPECT_EQ(value("floor(10 * (0.1 + 0.2))"), "3");
  EXPECT_EQ(value("3e-1 * 10"), "3");
  EXPECT_EQ(value("2 ^ -1"), "0.5");
  EXPECT_EQ(value("ceil(heads / 5) / 3"), "1");
  EXPECT_EQ(value("floor(1 / 3) + heads / 12"), "1");
}

TEST_F(Size, Mistakes) {
  EXPECT_EQ(value("embed / heads"), "E0220");
  EXPECT_EQ(value("ceil(2) + 7 / 2"), "E0220");
  EXPECT_EQ(value("huge + huge"), "E0221");
  EXPECT_EQ(value("2 ^ 64"), "E0221");
  EXPECT_EQ(value("huge * huge / huge"), "E0221");
  EXPECT_EQ(value("99999999999999999999"), "E0221");
  EXPECT_EQ(value("heads / zero"), "E0224");
  EXPECT_EQ(value("heads % (2 - 2)"), "E0224");
  EXPECT_EQ(value("zero ^ -1"), "E0224");
  EXPECT_EQ(value("hads"), "E0201");
  EXPECT_EQ(value("relu(heads)"), "E0223");
  EXPECT_EQ(value("\"text\""), "E0223");
  EXPECT_EQ(value("heads[embed]"), "E0223");
  EXPECT_EQ(value("ceil(1, 2)"), "E0223");
  EXPECT_EQ(value("2 ^ 0.5"), "E0223");
  EXPECT_EQ(value("1 + (heads == 12)"), "E0225");
  EXPECT_EQ(value("poisoned + 1"), "nothing");
  EXPECT_EQ(value("max(poisoned, 3)"), "nothing");
}

TEST_F(Size, InexactDivision) {
  EXPECT_EQ(size_error("embed / heads"),
            "error[E0220]: `embed / heads` is not a whole number\n"
            " --> test.mesh:1:10\n"
            "1 | dim it = embed / heads\n"
            "  |          ^^^^^^^^^^^^^ 1024 / 12 = 256/3\n"
            "  = note: heads = 12 was set by --set, over `heads = 16` on line 7\n"
            "  = help: round it: `ceil(embed / heads)` or `floor(embed / heads)`\n\n");
}

TEST_F(Size, SizesAreWholeAndPositive) {
  EXPECT_EQ(size_error("1.25 * 2"),
            "error[E0222]: dim `it` must be a whole number, found 2.5\n"
            " --> test.mesh:1:10\n"
            "1 | dim it = 1.25 * 2\n"
            "  |          ^^^^^^^^ 1.25 * 2 = 2.5\n"
            "  = help: round it: `ceil(1.25 * 2)` or `floor(1.25 * 2)`\n\n");
  EXPECT_NE(size_error("heads - 12").find("dim `it` must be at least 1, found 0"), std::string::npos);
}

TEST_F(Size, UnknownNamesSuggest) {
  EXPECT_EQ(size_error("2 * embd"),
            "error[E0201]: unknown dim or constant `embd`\n"
            " --> test.mesh:1:14\n"
            "1 | dim it = 2 * embd\n"
            "  |              ^^^^ did you mean `embed`?\n\n");
}

TEST_F(Size, Requires) {
  EXPECT_EQ(require_error("heads * head_dim == 768"), "");
  EXPECT_EQ(require_error("poisoned == 3"), "");
  EXPECT_EQ(require_error("heads * head_dim == embed"),
            "error[E0305]: `require` fails: heads * head_dim == embed\n"
            " --> test.mesh:1:9\n"
            "1 | require heads * head_dim == embed\n"
            "  |         ^^^^^^^^^^^^^^^^^^^^^^^^^ 12 * 64 = 768, but embed = 1024\n"
            "  = note: heads = 12 was set by --set, over `heads = 16` on line 7\n\n");
  EXPECT_EQ(require_error("embed > 3 and (head_dim < 10 and heads == 12)"),
            "error[E0305]: `require` fails: head_dim < 10\n"
            " --> test.mesh:1:24\n"
            "1 | require embed > 3 and (head_dim < 10 and heads == 12)\n"
            "  |                        ^^^^^^^^^^^^^ head_dim = 64, but 10\n\n");
  EXPECT_NE(require_error("not embed == 1024 or heads > 12").find("not 1024 == 1024 or 12 > 12 is false"),
            std::string::npos);
  EXPECT_NE(require_error("embed + 1").find("E0225"), std::string::npos);
}

TEST(Rational, TextAndOrder) {
  EXPECT_EQ(Rational::make(5, 4)->text(), "1.25");
  EXPECT_EQ(Rational::make(-1, 8)->text(), "-0.125");
  EXPECT_EQ(Rational::make(2, -6)->text(), "-1/3");
  EXPECT_EQ(Rational::parse("0.000001")->denominator(), 1'000'000);
  EXPECT_FALSE(Rational::parse("1e30"));
  EXPECT_EQ(*Rational::parse("2.50e1"), Rational(25));
  EXPECT_FALSE(Rational::make(1, 0));
  EXPECT_LT(compare(*Rational::make(1, 3), *Rational::make(2, 5)), 0);
}

}  // namespace

}  // namespace mesh
