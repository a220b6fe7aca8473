#include "codegen/commands/page/facts.h"

#include <fmt/format.h>

#include "codegen/commands/page/html.h"
#include "codegen/layout/cost.h"
#include "codegen/program/exposed.h"
#include "meshrt/log.h"

namespace mesh::page {

using html::code;
using html::element;
using html::escaped;
using meshrt::bytes_text;

std::string Lines::link(Span span) {
  if (!span.known()) return "";
  show(span.file);
  return fmt::format("<a href=\"#{}\">{}</a>", id(span.file, line_of(sources_, span)),
                     escaped(fmt::format("{}:{}", sources_.file_name(span), line_of(sources_, span))));
}

std::string Lines::id(FileId file, uint32_t line) { return fmt::format("file{}-line{}", file, line); }

Facts::Facts(const Session& of, const Compiled& what)
    : session(of),
      compiled(what),
      sources(of.sources),
      sharded(what.sharded()),
      graph(sharded.graph),
      mesh(sharded.layout.mesh),
      step(predict(what.program)),
      time(step_time(what.program, step)),
      tensors(planned_tensors(graph)),
      remedies(remedies_of(of, what, step)),
      memory(memory_curve(what.program, what.program.entries.front().run)),
      lines(of.sources) {}

std::string Facts::title(const PlannedCollective& one) const {
  return fmt::format("{} {} over {} ({} ranks)", name_of(one.kind), code(one.tensor),
                     escaped(axes_text(mesh, one.axes)), one.group);
}

std::string Facts::sends(const PlannedCollective& one) const {
  if (one.sending == 1) return bytes_text(one.bytes);
  return fmt::format("{}<span class=\"comma\">, </span><span class=\"times\">{} times {}</span>",
                     bytes_text(volume(one)), one.sending, bytes_text(one.bytes));
}

std::string Facts::remedy(size_t index) const {
  const Remedy& found = remedies[index];
  if (compiled.found) return "The search has weighed the rules against each other.";
  if (!found.sought)
    return volume(step.collectives[index]) == 0 ? "It sends nothing." : "Not sought: it takes little time.";
  if (found.rule.empty()) return "None of the rules that were tried removes it or makes it smaller.";
  const StepCost& then = found.cost;
  const double now = time.total();
  const char* verdict = then.seconds < 0.995 * now ? "faster" : then.seconds > 1.005 * now ? "slower" : "as fast";
  const std::string change = found.in_place_of.empty()
                                 ? "Add " + code(found.rule)
                                 : "Write " + code(found.rule) + " in place of " + code(found.in_place_of);
  const std::string less =
      found.still > 0 ? fmt::format("Nothing that was tried; it sends less, {}, with this. ", bytes_text(found.still))
                      : "";
  return fmt::format("{}{}: a step then takes {} (<strong class=\"{}\">{}</strong>), sends {} and holds {} a rank.",
                     less, change, time_text(then.seconds), verdict[0] == 'a' ? "same" : verdict, verdict,
                     bytes_text(then.bytes), bytes_text(then.memory));
}

std::string Facts::id_of_collective(size_t index) { return fmt::format("collective{}", index + 1); }

std::string section(const std::string& id, const std::string& heading, const std::string& content) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n", id,
      escaped(heading), content);
}

}  // namespace mesh::page
