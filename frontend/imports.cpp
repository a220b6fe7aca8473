#include "frontend/imports.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>

#include "frontend/library.h"
#include "frontend/parse.h"
#include "frontend/suggest.h"

namespace mesh {

namespace {

class Loader {
 public:
  Loader(SourceMap& sources, DiagnosticSink& sink) : sources_(sources), sink_(sink) {}

  SourceProgram load(const std::vector<std::string>& paths) {
    for (std::size_t at = 0; at < paths.size(); ++at) {
      const std::string path = normal(paths[at]);
      if (std::find(given_.begin(), given_.end(), path) != given_.end()) {
        sink_.error("E0133", Span{}, "`{}` is given twice", paths[at]).help("name every file once");
        continue;
      }
      given_.push_back(path);
      if (const auto file = open(path, Span{})) load_file(*file, path);
      if (at == 0) {
        if (program_.files.empty()) return std::move(program_);
        program_.spec = program_.files.size() - 1;
      }
    }
    return std::move(program_);
  }

 private:
  enum class State { loading, loaded };

  // An import on the way from the spec to the file at hand.
  struct Step {
    std::string name;
    Span import;
  };

  static std::string normal(const std::string& path) {
    return path == "-" ? path : std::filesystem::path(path).lexically_normal().string();
  }

  std::optional<FileId> open(const std::string& path, Span import) {
    if (const auto known = sources_.find(path)) return known;
    if (path == "-") {
      return sources_.add("<stdin>", {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()});
    }
    std::string reason;
    const auto file = sources_.load(path, reason);
    if (!file) {
      auto error = sink_.error("E0130", import, "cannot read `{}`: {}", path, reason);
      if (std::filesystem::is_directory(path)) error.help("name a file of the folder");
      else if (const auto near = near_file(path)) error.help("did you mean `{}`?", *near);
      else if (!import.known() && std::filesystem::path(path).extension() != ".mesh")
        error.help("a spec is called NAME.mesh; the size of a dim is set by `--set DIM=N`");
    }
    return file;
  }

  // The spec in the same folder whose name is nearest.
  static std::optional<std::string> near_file(const std::string& path) {
    const std::filesystem::path wanted(path), folder = wanted.parent_path();
    std::vector<std::string> known;
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end;
         at.increment(error))
      if (at->path().extension() == ".mesh") known.push_back(at->path().stem().string());
    std::sort(known.begin(), known.end());
    const auto near = did_you_mean(wanted.stem().string(), known);
    return near ? std::optional((folder / (*near + ".mesh")).string()) : std::nullopt;
  }

  void load_file(FileId file, const std::string& name) {
    if (states_.count(name) != 0) return;
    states_[name] = State::loading;
    Ast ast = parse(file, sources_, sink_);
    std::map<std::string, Span> imported;
    for (const ast::Decl& decl : ast.decls) {
      const auto* import = std::get_if<ast::Import>(&decl.node);
      if (import == nullptr) continue;
      const std::string target = target_of(*import, name);
      const auto [earlier, first] = imported.emplace(target, import->target_span);
      if (first) {
        follow(*import, target);
      } else {
        sink_.error("E0133", import->target_span, "`{}` is imported twice", sources_.text(import->target_span))
            .label(earlier->second, "first here")
            .help("leave one of them out");
      }
    }
    program_.files.push_back(std::move(ast));
    states_[name] = State::loaded;
  }

  std::string target_of(const ast::Import& import, const std::string& importer) const {
    if (const auto* path = std::get_if<ast::Path>(&import.target)) return path->text();
    const auto folder = std::filesystem::path(importer).parent_path();
    return normal((folder / std::get<std::string>(import.target)).string());
  }

  void follow(const ast::Import& import, const std::string& target) {
    if (const auto state = states_.find(target); state != states_.end()) {
      if (state->second == State::loading) report_circle(import, target);
      return;
    }
    const bool module = std::holds_alternative<ast::Path>(import.target);
    const auto file = module ? open_module(import, target) : open(target, import.target_span);
    if (!file) return;
    steps_.push_back(Step{target, import.target_span});
    load_file(*file, target);
    steps_.pop_back();
  }

  std::optional<FileId> open_module(const ast::Import& import, const std::string& name) {
    std::vector<std::string> names;
    for (const LibraryModule& module : library()) {
      if (module.name == name) return sources_.add(name, std::string(module.text));
      names.emplace_back(module.name);
    }
    auto error = sink_.error("E0131", import.target_span, "the library has no module `{}`", name);
    if (const auto near = did_you_mean(name, names))
      error.here("did you mean `{}`?", *near).fix(import.target_span, *near);
    error.note("its modules are {}", fmt::join(names, ", "));
    error.help("a file is imported in quotes: `import \"{}.mesh\"`", name);
    return std::nullopt;
  }

  void report_circle(const ast::Import& import, const std::string& target) {
    auto error = sink_.error("E0132", import.target_span, "files import each other in a circle");
    std::string circle = target;
    bool inside = std::none_of(steps_.begin(), steps_.end(), [&](const Step& step) { return step.name == target; });
    for (const Step& step : steps_) {
      if (inside) {
        circle += " -> " + step.name;
        error.label(step.import, "imports `{}`", step.name);
      }
      inside = inside || step.name == target;
    }
    error.here("imports `{}` again", target);
    error.note("circle: {} -> {}", circle, target);
    error.help("move what both need into a third file");
  }

  SourceMap& sources_;
  DiagnosticSink& sink_;
  SourceProgram program_;
  std::vector<std::string> given_;
  std::map<std::string, State> states_;  // by path or module name
  std::vector<Step> steps_;
};

}  // namespace

SourceProgram load_program(const std::vector<std::string>& paths, SourceMap& sources, DiagnosticSink& sink) {
  return Loader(sources, sink).load(paths);
}

}  // namespace mesh
