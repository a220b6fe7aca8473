// ops.cpp: `meshc ops [NAME]`: the ops of the language: dims, meaning, the same in NumPy, gradients.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/elaborate/catalogue.h"
#include "codegen/elaborate/other_names.h"
#include "frontend/suggest.h"

namespace mesh {

namespace {

struct OpsOptions {
  std::vector<std::string> names;
  bool json = false, markdown = false;
};

/// "e = np.exp(x); e / e.sum()" -> "e = np.exp(x); y = e / e.sum()"
std::string assigned(const std::string& name, const std::string& lines) {
  const size_t last = lines.rfind("; ");
  const size_t at = last == std::string::npos ? 0 : last + 2;
  return fmt::format("{}{} = {}", lines.substr(0, at), name, lines.substr(at));
}

// ---- for a terminal

/// "   dims      those of x", broken between words and indented.
std::string labelled(std::string_view label, const std::string& text) {
  constexpr size_t indent = 12, width = 100;
  std::string lines = fmt::format("  {:<{}}", label, indent - 2);
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size()), length = end - at;
    if (column > indent && column + 1 + length > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) lines += ' ', ++column;
    lines += text.substr(at, length);
    column += length;
    at = end + 1;
  }
  return lines + "\n";
}

std::string entry_text(const CatalogueEntry& entry) {
  std::string text = entry.call + "\n" + labelled("", entry.meaning);
  if (!entry.operands.empty()) text += labelled("of", entry.operands);
  if (!entry.before.empty()) text += labelled("after", entry.before);
  if (!entry.needs.empty()) text += labelled("needs", entry.needs);
  text += labelled("gives", entry.result) + labelled("dims", entry.dims);
  if (!entry.settings.empty()) text += labelled("settings", entry.settings);
  if (!entry.numpy.empty()) text += labelled("NumPy", assigned("y", entry.numpy));
  for (const auto& [of, gradient] : entry.gradients) text += labelled("gradient", assigned("d_" + of, gradient));
  return text;
}

/// The meaning up to its first full stop or semicolon.
std::string first_words(const std::string& meaning) {
  const size_t end = std::min({meaning.find(". "), meaning.find("; "), meaning.find(": ")});
  std::string text = meaning.substr(0, end);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string list_text() {
  std::string text;
  for (const CatalogueFamily& family : catalogue()) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", family.title);
    size_t width = 0;
    for (const CatalogueEntry& entry : family.entries) width = std::max(width, entry.call.size());
    for (const CatalogueEntry& entry : family.entries)
      text += fmt::format("  {:<14} {:<{}}  {}\n", entry.name, entry.call, width, first_words(entry.meaning));
  }
  return text + "\n`meshc ops NAME` tells all of one: dims, the same in NumPy, gradients.\n";
}

// ---- for programs, and for grammar/README.md

nlohmann::ordered_json entry_json(const CatalogueEntry& entry, const std::string& family) {
  nlohmann::ordered_json gradients = nlohmann::ordered_json::object();
  for (const auto& [of, gradient] : entry.gradients) gradients[of] = gradient;
  return {{"name", entry.name},         {"family", family},       {"call", entry.call},
          {"operands", entry.operands}, {"before", entry.before}, {"needs", entry.needs},
          {"result", entry.result},     {"dims", entry.dims},     {"meaning", entry.meaning},
          {"settings", entry.settings}, {"numpy", entry.numpy},   {"gradient", gradients}};
}

std::string entry_markdown(const CatalogueEntry& entry) {
  std::string types = entry.operands.empty() ? "" : fmt::format("`{}`<br>", entry.operands);
  if (!entry.before.empty()) types += fmt::format("after `{}`<br>", entry.before);
  std::string meaning = entry.meaning;
  if (!entry.needs.empty()) meaning += fmt::format(" Needs `{}`.", entry.needs);
  if (!entry.settings.empty()) meaning += fmt::format(" Settings: {}.", entry.settings);
  std::string gradients;
  for (const auto& [of, gradient] : entry.gradients)
    gradients += fmt::format("{}`{}`", gradients.empty() ? "" : "<br>", assigned("d_" + of, gradient));
  return fmt::format("| `{}` | {} | {}→ `{}`, {} | {} | {} |\n", entry.call, meaning, types, entry.result, entry.dims,
                     entry.numpy.empty() ? "" : fmt::format("`{}`", entry.numpy), gradients);
}

std::string markdown() {
  std::string text;
  for (const CatalogueFamily& family : catalogue()) {
    text += fmt::format("### {}\n\n", family.title);
    if (!family.intro.empty()) text += family.intro + "\n\n";
    text += "| op | what it is | types, and the rule of dims | in NumPy | gradient |\n|---|---|---|---|---|\n";
    for (const CatalogueEntry& entry : family.entries) text += entry_markdown(entry);
    text += "\n";
  }
  return text;
}

// ---- the command

/// The entries of the names, or all; UsageError where there is none of a name.
std::vector<std::pair<const CatalogueEntry*, std::string>> chosen(const std::vector<std::string>& names) {
  std::vector<std::pair<const CatalogueEntry*, std::string>> found;
  std::vector<std::string> known;
  for (const CatalogueFamily& family : catalogue())
    for (const CatalogueEntry& entry : family.entries) {
      known.push_back(entry.name);
      if (names.empty() || std::ranges::count(names, entry.name) > 0) found.emplace_back(&entry, family.title);
    }
  for (const std::string& name : names) {
    if (std::ranges::count(known, name) > 0) continue;
    if (const std::string_view written = elaboration::written_here(name); !written.empty())
      throw UsageError(fmt::format("there is no op `{}`: {}", name, written));
    const auto near = did_you_mean(name, known);
    throw UsageError(fmt::format("there is no op `{}`; {}", name,
                                 near ? fmt::format("did you mean `{}`?", *near) : "`meshc ops` lists them"));
  }
  return found;
}

int ops(const OpsOptions& options) {
  const auto entries = chosen(options.names);
  if (options.markdown) {
    fmt::print("{}", markdown());
  } else if (options.json) {
    nlohmann::ordered_json listed = nlohmann::ordered_json::array();
    for (const auto& [entry, family] : entries) listed.push_back(entry_json(*entry, family));
    nlohmann::ordered_json elsewhere = nlohmann::ordered_json::object();
    for (const elaboration::OtherName& other : elaboration::other_names()) elsewhere[other.name] = other.written;
    fmt::print("{}\n", nlohmann::ordered_json(
                           {{"schema", 1}, {"dims", catalogue_dims}, {"ops", listed}, {"elsewhere", elsewhere}})
                           .dump(2));
  } else if (options.names.empty()) {
    fmt::print("{}", list_text());
  } else {
    for (size_t i = 0; i < entries.size(); ++i) fmt::print("{}{}", i > 0 ? "\n" : "", entry_text(*entries[i].first));
    fmt::print("\nwith {}\n", catalogue_dims);
  }
  return exit_ok;
}

}  // namespace

Command ops_command() {
  return {"ops",
          "the ops of the language: dims, meaning, the same in NumPy, gradients",
          "In the NumPy lines `y` is the result, and `d` the gradient of the loss by it.",
          {{"meshc ops", "a list of all"}, {"meshc ops softmax", "all of one"}, {"meshc ops --json", "for programs"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<OpsOptions>();
            app.add_option("name", options->names, "names of ops, as `meshc ops` lists them")->type_name("[NAME...]");
            auto* json = app.add_flag("--json", options->json, "print the result as JSON");
            app.add_flag("--markdown", options->markdown, "print the tables of grammar/README.md")->excludes(json);
            return [options] { return ops(*options); };
          }};
}

}  // namespace mesh
