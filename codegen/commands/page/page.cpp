#include "codegen/commands/page/page.h"

#include <fmt/format.h>

#include "codegen/commands/page/facts.h"
#include "codegen/commands/page/html.h"

namespace mesh {
namespace {

struct PageSection {
  const char *id, *title;
  std::string text;
};

/// Links to the sections that there are.
std::string navigation(const std::vector<PageSection>& sections) {
  std::string links;
  for (const PageSection& one : sections)
    if (!one.text.empty()) links += fmt::format("<li><a href=\"#{}\">{}</a></li>", one.id, one.title);
  return fmt::format("<nav aria-label=\"Sections\"><ul>{}</ul></nav>\n", links);
}

/// The spec's own name, without its folder.
std::string file_of(const Session& session) { return session.sources.file_name({1, 0, 0}); }

}  // namespace

std::string plan_page(const Session& session, const Compiled& compiled) {
  page::Facts facts(session, compiled);
  const std::string model = html::escaped(facts.graph.model), layout = html::escaped(facts.sharded.layout.name);
  const std::string title = model + (layout.empty() ? ", no layout" : ", layout " + layout);
  const std::string first = page::verdict(facts);
  std::vector<PageSection> sections{{"messages", "Messages", page::messages(facts)},
                                    {"layout", "Layout", page::layout(facts)},
                                    {"collectives", "Collectives", page::collectives(facts)},
                                    {"pipeline", "Pipeline", page::pipeline(facts)},
                                    {"memory", "Memory", page::memory(facts)},
                                    {"values", "Values", page::values(facts)}};
  sections.push_back({"source", "Spec", page::source(facts)});
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n<meta "
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n<title>Plan "
      "of "
      "{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<header><h1>{}</h1>\n<p class=\"dim\">{}: what a training "
      "step "
      "computes, sends and holds, predicted before anything runs.</p>\n{}</header>\n<main>\n{}",
      title, page::styles().front(), title, html::escaped(file_of(session)), navigation(sections), first);
  for (const PageSection& one : sections) text += one.text;
  return text + "</main>\n</body>\n</html>\n";
}

}  // namespace mesh
