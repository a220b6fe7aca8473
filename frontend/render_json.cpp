#include <nlohmann/json.hpp>

#include "frontend/render.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;

Json place(Span span, const SourceMap& sources) {
  const Position begin = sources.begin(span), end = sources.end(span);
  return Json{{"file", sources.name(span.file)},
              {"line", begin.line},
              {"col", begin.column},
              {"end_line", end.line},
              {"end_col", end.column}};
}

}  // namespace

Json diagnostic_json(const Diagnostic& diagnostic, const SourceMap& sources) {
  Json spans = Json::array(), fixes = Json::array();
  for (const Label& label : diagnostic.labels) {
    if (!label.span.known()) continue;
    Json one = place(label.span, sources);
    one["label"] = label.text;
    one["primary"] = label.primary;
    spans.push_back(std::move(one));
  }
  for (const Fix& fix : diagnostic.fixes) {
    if (!fix.span.known()) continue;
    Json one = place(fix.span, sources);
    one["text"] = fix.text;
    fixes.push_back(std::move(one));
  }
  return Json{{"level", diagnostic.level == Level::error ? "error" : "warning"},
              {"code", diagnostic.code},
              {"message", diagnostic.message},
              {"spans", std::move(spans)},
              {"notes", diagnostic.notes},
              {"helps", diagnostic.helps},
              {"fixes", std::move(fixes)}};
}

std::string render_json(const Diagnostic& diagnostic, const SourceMap& sources) {
  return diagnostic_json(diagnostic, sources).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mesh
