// Files that import each other, and the library.
#include "frontend/imports.h"

#include <gtest/gtest.h>

#include "frontend/library.h"
#include "frontend/render.h"

namespace mesh {

namespace {

class Imports : public testing::Test {
 protected:
  // The names of the files in their order.
  std::vector<std::string> load(const std::vector<std::string>& paths) {
    program_ = load_program(paths, sources_, sink_);
    std::vector<std::string> names;
    for (const Ast& ast : program_.files) names.push_back(sources_.name(ast.file));
    return names;
  }
  std::string messages() const { return render_all(sink_, sources_); }

  SourceMap sources_;
  DiagnosticSink sink_;
  SourceProgram program_;
};

using Names = std::vector<std::string>;

TEST_F(Imports, LibraryIsBuiltInAndParses) {
  sources_.add("a.mesh", "import std.nn\ndim x = 3\n");
  EXPECT_EQ(load({"a.mesh"}), (Names{"std.nn", "a.mesh"}));
  EXPECT_EQ(messages(), "");
  EXPECT_EQ(program_.spec, 1U);
  EXPECT_EQ(program_.files[0].decls.size(), 9U);
  EXPECT_EQ(library().at(0).name, "std.nn");
}

TEST_F(Imports, ImportedFilesComeFirstAndOnce) {
  sources_.add("models/a.mesh", "import \"b.mesh\"\nimport \"../c.mesh\"\n");
  sources_.add("models/b.mesh", "import \"../c.mesh\"\n");
  sources_.add("c.mesh", "dim x = 3\n");
  sources_.add("layouts.mesh", "import \"c.mesh\"\nmesh m { data: 2 }\n");
  EXPECT_EQ(load({"./models/a.mesh", "layouts.mesh"}),
            (Names{"c.mesh", "models/b.mesh", "models/a.mesh", "layouts.mesh"}));
  EXPECT_EQ(messages(), "");
  EXPECT_EQ(program_.spec, 2U);
}

TEST_F(Imports, Circle) {
  sources_.add("a.mesh", "import \"b.mesh\"\n");
  sources_.add("b.mesh", "import \"c.mesh\"\n");
  sources_.add("c.mesh", "dim x = 3\nimport \"b.mesh\"\n");
  EXPECT_EQ(load({"a.mesh"}).size(), 3U);
  EXPECT_EQ(messages(),
            "error[E0132]: files import each other in a circle\n"
            " --> c.mesh:2:8\n"
            "2 | import \"b.mesh\"\n"
            "  |        ^^^^^^^^ imports `b.mesh` again\n"
            " ::: b.mesh:1:8\n"
            "1 | import \"c.mesh\"\n"
            "  |        -------- imports `c.mesh`\n"
            "  = note: circle: b.mesh -> c.mesh -> b.mesh\n"
            "  = help: move what both need into a third file\n\n");
}

TEST_F(Imports, ItselfIsACircle) {
  sources_.add("a.mesh", "import \"a.mesh\"\n");
  EXPECT_EQ(load({"a.mesh"}), Names{"a.mesh"});
  EXPECT_NE(messages().find("circle: a.mesh -> a.mesh"), std::string::npos) << messages();
}

TEST_F(Imports, TwiceMissingAndUnknown) {
  sources_.add("a.mesh", "import std.nn\nimport std.nn\nimport std.mm\nimport \"none.mesh\"\nimport other\n");
  EXPECT_EQ(load({"a.mesh", "a.mesh"}), (Names{"std.nn", "a.mesh"}));
  EXPECT_EQ(messages(),
            "error[E0133]: `a.mesh` is given twice\n"
            " = help: name every file once\n"
            "\n"
            "error[E0133]: `std.nn` is imported twice\n"
            " --> a.mesh:2:8\n"
            "1 | import std.nn\n"
            "  |        ------ first here\n"
            "2 | import std.nn\n"
            "  |        ^^^^^^\n"
            "  = help: leave one of them out\n"
            "\n"
            "error[E0131]: the library has no module `std.mm`\n"
            " --> a.mesh:3:8\n"
            "3 | import std.mm\n"
            "  |        ^^^^^^ did you mean `std.nn`?\n"
            "  = note: its modules are std.nn\n"
            "  = help: a file is imported in quotes: `import \"std.mm.mesh\"`\n"
            "\n"
            "error[E0130]: cannot read `none.mesh`: No such file or directory\n"
            " --> a.mesh:4:8\n"
            "4 | import \"none.mesh\"\n"
            "  |        ^^^^^^^^^^^\n"
            "\n"
            "error[E0131]: the library has no module `other`\n"
            " --> a.mesh:5:8\n"
            "5 | import other\n"
            "  |        ^^^^^\n"
            "  = note: its modules are std.nn\n"
            "  = help: a file is imported in quotes: `import \"other.mesh\"`\n"
            "\n");
}

TEST_F(Imports, SpecThatCannotBeRead) {
  EXPECT_TRUE(load({"/nowhere/a.mesh"}).empty());
  EXPECT_EQ(messages(), "error[E0130]: cannot read `/nowhere/a.mesh`: No such file or directory\n\n");
  EXPECT_TRUE(load({"/nowhere/steps"}).empty());
  EXPECT_NE(messages().find("help: a spec is called NAME.mesh; the size of a dim is set by `--set DIM=N`"),
            std::string::npos)
      << messages();
  EXPECT_TRUE(load({"/"}).empty());
  EXPECT_NE(messages().find("is a directory"), std::string::npos);
}

}  // namespace

}  // namespace mesh
