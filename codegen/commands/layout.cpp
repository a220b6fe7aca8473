// layout.cpp: `meshc layout SPEC --mesh data=2,model=2`: the rules with the least predicted time of a step, as text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/session.h"
#include "codegen/elaborate/declarations.h"
#include "codegen/program/exposed.h"
#include "frontend/imports.h"
#include "frontend/print_ast.h"

namespace mesh {

namespace {

struct LayoutCommandOptions {
  OutputOptions output;
  SpecOptions spec;
  double seconds = 10;
  std::string file;  // of --write
  bool write = false;
};

/// What is asked: a layout of the spec that says `auto`, or one that does not stand there yet.
struct Question {
  std::string layout;
  std::string mesh_text;      // of a mesh that the spec has not
  std::optional<Span> there;  // where the spec has the layout
};

bool says_auto(const ast::Layout& layout) {
  return std::ranges::any_of(layout.rules,
                             [](const ast::Rule& rule) { return std::holds_alternative<ast::Auto>(rule.node); });
}

/// "found", or the first of "found2", "found3", .. that is no name yet.
template <class Taken>
std::string free_name(const std::string& stem, Taken taken) {
  std::string name = stem;
  for (int number = 2; taken(name); ++number) name = stem + std::to_string(number);
  return name;
}

/// Whether the mesh has these axes, of these sizes.
bool is_mesh_of(const ast::Mesh& mesh, const std::vector<std::pair<std::string, int64_t>>& axes) {
  return mesh.axes.size() == axes.size() && std::ranges::all_of(axes, [&](const auto& asked) {
           return std::ranges::any_of(mesh.axes, [&](const ast::Axis& one) {
             return one.name.text == asked.first && (!one.size || print(*one.size) == std::to_string(asked.second));
           });
         });
}

/// The mesh that is meant: one of the spec that is so, or a new one, whose text is set.
std::string mesh_of(const Declarations& declared, const std::vector<std::pair<std::string, int64_t>>& axes,
                    std::string& text) {
  if (axes.empty()) {
    if (declared.meshes.size() == 1) return declared.meshes.front()->name.text;
    throw UsageError(declared.meshes.empty() ? "the spec has no mesh: give one, as in `--mesh data=2,model=2`"
                                             : "the spec has several meshes: give the sizes of one's axes, as in "
                                               "`--mesh data=2,model=2`");
  }
  for (const ast::Mesh* mesh : declared.meshes)
    if (is_mesh_of(*mesh, axes)) return mesh->name.text;
  std::vector<std::string> sizes;
  sizes.reserve(axes.size());
  for (const auto& [axis, size] : axes) sizes.push_back(fmt::format("{}: {}", axis, size));
  std::string name = free_name("grid", [&](const std::string& one) { return declared.mesh(one) != nullptr; });
  text = fmt::format("mesh {} {{ {} }}\n\n", name, fmt::join(sizes, ", "));
  return name;
}

/// What the file of --write has already is declared, too: what comes behind it is named otherwise.
void read_written(const LayoutCommandOptions& options, Session& session) {
  if (options.file.empty()) return;
  if (!options.file.ends_with(".mesh"))
    throw UsageError(fmt::format("--write {}: layouts stand in a file that is named NAME.mesh", options.file));
  const auto same = [&](const std::string& file) {
    std::error_code ignored;  // of a file that is not there
    return std::filesystem::equivalent(file, options.file, ignored);
  };
  if (std::filesystem::exists(options.file) && std::ranges::none_of(session.request.files, same))
    session.request.files.push_back(options.file);
}

/// Adds to the request what is asked for, as a file of its own where the spec does not ask it.
Question ask(const LayoutCommandOptions& options, Session& session) {
  read_written(options, session);
  DiagnosticSink unheard;  // compilation reports
  const SourceProgram program = load_program(session.request.files, session.sources, unheard);
  if (program.files.empty() || unheard.has_errors()) return {};
  const Declarations declared = declarations_of(program, unheard);
  std::string rules;
  const ast::Layout* base = options.spec.layout.empty() ? nullptr : declared.layout(options.spec.layout);
  if (base == nullptr && !options.spec.layout.empty()) return {};
  if (base && says_auto(*base)) {
    for (const ast::Decl& decl : program.files[program.spec].decls)
      if (std::get_if<ast::Layout>(&decl.node) == base) return {base->name.text, "", decl.span};
    return {base->name.text, "", {}};
  }
  Question question;
  std::string mesh;
  if (base) {
    mesh = base->mesh.text;
    for (const ast::Rule& rule : base->rules) rules += print(rule, 2);
  } else {
    mesh = mesh_of(declared, parse_axes(options.spec.axes), question.mesh_text);
    if (!question.mesh_text.empty()) session.request.mesh.clear();
  }
  question.layout = free_name("found", [&](const std::string& one) { return declared.layout(one) != nullptr; });
  const std::string text =
      fmt::format("{}layout {} on {} {{\n{}  auto\n}}\n", question.mesh_text, question.layout, mesh, rules);
  session.sources.add("the layout asked for", text);
  session.request.files.emplace_back("the layout asked for");
  session.request.layout = question.layout;
  return question;
}

/// The mesh with the sizes that `--mesh` gave, where the layout is to stand beside it.
std::string answer_text(const Question& question, const FoundLayout& found) { return question.mesh_text + found.text; }

bool write_to(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  return bool(file.flush());
}

/// In place of the layout that says `auto`, else at the end of the file.
void write(const LayoutCommandOptions& options, const Question& question, const Session& session,
           const std::string& answer) {
  const std::string& spec = session.request.files.front();
  const std::string path = options.file.empty() ? spec : options.file;
  std::string text;
  if (std::ifstream file(path, std::ios::binary); file) text.assign(std::istreambuf_iterator<char>(file), {});
  if (path == spec && question.there) text.replace(question.there->begin, question.there->size(), answer);
  else text += (text.empty() ? "" : "\n") + answer;
  if (!write_to(path, text)) throw UsageError(fmt::format("{} cannot be written", path));
  fmt::print(stderr, "wrote layout `{}` to {}\n", question.layout, path);
}

using Axes = std::vector<std::pair<std::string, int64_t>>;

/// Every mesh of so many ranks with up to three axes, of which the last is innermost; of three only where they are few.
std::vector<Axes> meshes_of(int64_t ranks) {
  constexpr size_t many = 24;
  std::vector<Axes> two, three;
  for (int64_t outer = 2; outer < ranks; ++outer) {
    if (ranks % outer != 0) continue;
    const int64_t rest = ranks / outer;
    two.push_back({{"outer", outer}, {"inner", rest}});
    for (int64_t middle = 2; middle < rest; ++middle)
      if (rest % middle == 0) three.push_back({{"outer", outer}, {"middle", middle}, {"inner", rest / middle}});
  }
  std::vector<Axes> all{{{"all", ranks}}};
  all.insert(all.end(), two.begin(), two.end());
  if (all.size() + three.size() <= many) all.insert(all.end(), three.begin(), three.end());
  return all;
}

std::string sizes_text(const Axes& axes) {
  std::string text;
  for (const auto& [axis, size] : axes) text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis, size);
  return text;
}

/// The mesh of the fastest step, after a shorter search on each; `told`: what the others take.
Axes best_mesh(const LayoutCommandOptions& options, std::string& told) {
  const std::vector<Axes> meshes = meshes_of(options.spec.ranks);
  std::vector<std::pair<double, size_t>> times;
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::duration<double> most(options.seconds);
  for (size_t i = 0; i < meshes.size(); ++i) {
    if (i > 0 && std::chrono::steady_clock::now() - begin > most) {
      told += fmt::format("// {} of {} meshes were not tried for lack of time\n", meshes.size() - i, meshes.size());
      break;
    }
    LayoutCommandOptions one = options;
    one.spec.axes = {sizes_text(meshes[i])};
    Session session(one.spec, one.output);
    session.request.search_seconds = options.seconds / static_cast<double>(meshes.size());
    ask(one, session);
    if (const auto compiled = session.quietly(session.request); compiled && compiled->found)
      times.emplace_back(compiled->found->seconds, i);
  }
  std::ranges::sort(times);
  for (const auto& [seconds, mesh] : times)
    told += fmt::format("// {} {}\n", sizes_text(meshes[mesh]), time_text(seconds));
  return times.empty() ? meshes.front() : meshes[times.front().second];
}

nlohmann::ordered_json json_of(const Compiled& compiled, const Question& question, const std::string& answer) {
  const FoundLayout& found = *compiled.found;
  const MeshShape& mesh = compiled.sharded().layout.mesh;
  nlohmann::ordered_json json{{"schema", 1}, {"layout", question.layout}, {"mesh", {{"name", mesh.name}}}};
  for (const MeshAxis& axis : mesh.axes) json["mesh"]["axes"][axis.name] = axis.size;
  json.update(found_json(found));
  json["text"] = answer;
  const StepCost cost = step_cost(compiled.program);
  json["predicted_seconds"] = cost.seconds;
  json["memory"] = cost.memory;
  return json;
}

int layout(LayoutCommandOptions& options) {
  std::string meshes;  // that were tried
  if (options.spec.axes == std::vector<std::string>{"auto"}) {
    if (options.spec.ranks == 0) throw UsageError("--mesh auto: of how many ranks? `--mesh auto -n 8`");
    if (!options.spec.layout.empty()) throw UsageError("--mesh auto with --layout, whose mesh has its axes");
    options.seconds /= 2;  // half for all meshes together, half for the best of them
    options.spec.axes = {sizes_text(best_mesh(options, meshes))};
  }
  Session session(options.spec, options.output);
  session.request.search_seconds = options.seconds;
  const Question question = ask(options, session);
  const std::optional<Compiled> compiled = session.compile();
  if (!compiled) return exit_diagnostics;
  if (!compiled->found) return exit_ok;
  const std::string answer = answer_text(question, *compiled->found);
  if (options.output.json) fmt::print("{}\n", json_of(*compiled, question, answer).dump(2));
  else fmt::print("{}{}", meshes, answer);
  if (options.write) write(options, question, session, answer);
  return exit_ok;
}

}  // namespace

Command layout_command() {
  return {
      "layout",
      "find the layout whose step is predicted to be fastest",
      "Searches through rules for dims, parameters and moments, as `plan` predicts their steps, and prints the\n"
      "smallest set of them with what each is worth. With --memory 16GiB only rules under which a rank has room.\n"
      "With --layout NAME its rules are kept. In a spec, `layout NAME on MESH { auto }` does the same whenever it is\n"
      "compiled. The same command gives the same rules on every machine.",
      {{"meshc layout gpt.mesh --mesh data=2,model=2", "on a mesh of these sizes"},
       {"meshc layout gpt.mesh --mesh data=2,model=2 --memory 16GiB", "within the memory of a rank"},
       {"meshc layout gpt.mesh --mesh auto -n 8", "on the best mesh of 8 ranks"},
       {"meshc layout gpt.mesh --mesh data=2,model=2 --write", "and adds it to the spec"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<LayoutCommandOptions>();
        options->spec.declare(app, false);
        options->output.declare(app, true);
        app.get_option("--layout")->description("a layout of the spec, whose rules are kept");
        app.get_option("--mesh")->description(
            "the mesh: one of the spec with these axes, else a new one; auto: the best of -n ranks");
        app.add_option("--seconds", options->seconds, "how long the search may take, about")
            ->check(is_positive)
            ->check(CLI::Range(0.1, 3600.0))
            ->type_name("N");
        auto* write = app.add_option("--write", options->file, "writes it too: into the spec, or into FILE");
        write->expected(0, 1)->type_name("[FILE]");
        return [options, write] {
          options->write = write->count() > 0;
          return layout(*options);
        };
      }};
}

}  // namespace mesh
