// The JSON Schema of run files, made of the table of their keys.
#include <nlohmann/json.hpp>

#include "meshrt/run_keys.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;
using KeyKind = RunKey::Kind;

// Readers of YAML differ in what they take for a number: 1e-3 and 23:50:00 may come as texts or as numbers.
Json value_of(const RunKey& key) {
  switch (key.kind) {
    case KeyKind::whole: return {{"type", "integer"}, {"minimum", key.least}};
    case KeyKind::positive:
      return {{"anyOf",
               {{{"type", "number"}, {"exclusiveMinimum", 0}},
                {{"type", "string"}, {"pattern", "^[0-9_.]+([eE][-+]?[0-9]+)?$"}}}}};
    case KeyKind::text: return {{"type", {"string", "number"}}, {"minLength", 1}};
    case KeyKind::texts:
      return {{"anyOf",
               {{{"type", {"string", "number"}}, {"minLength", 1}},
                {{"type", "array"}, {"minItems", 1}, {"items", {{"type", "string"}, {"minLength", 1}}}}}}};
    case KeyKind::word: return {{"enum", key.words}};
    case KeyKind::truth: return {{"type", "boolean"}};
    case KeyKind::bytes:
      return {
          {"anyOf",
           {{{"type", "integer"}, {"minimum", 1}}, {{"type", "string"}, {"pattern", "^[0-9_.]+ *([KMG]i?B|kB|B)?$"}}}}};
    case KeyKind::cut:
      return {{"anyOf",
               {{{"type", "integer"}, {"minimum", 0}},
                {{"type", "string"}, {"pattern", "^(100([.]0{1,6})?|[0-9]{1,2}([.][0-9]{1,6})?)%$"}}}}};
    case KeyKind::duration:
      return {{"anyOf",
               {{{"type", "integer"}, {"minimum", 1}},
                {{"type", "string"}, {"pattern", "^([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}$"}}}}};
    case KeyKind::range:
      return {
          {"anyOf",
           {{{"type", "integer"}, {"minimum", 1}}, {{"type", "string"}, {"pattern", "^[0-9_]+([.][.][0-9_]+)?$"}}}}};
    case KeyKind::names: return {{"type", "array"}, {"items", {{"type", "string"}}}};
    case KeyKind::files:
    case KeyKind::section: break;
  }
  return Json::object();
}

Json section_of(const RunSection& section) {
  Json schema = {{"type", {"object", "null"}}, {"properties", Json::object()}, {"additionalProperties", false}};
  const std::string inside = section.path.empty() ? "" : section.path + ".";
  for (const RunKey& key : section.keys) {
    Json& value = schema["properties"][key.name];
    if (key.kind == KeyKind::section) value = section_of(run_section(inside + key.name));
    else if (key.kind == KeyKind::files)
      value = {{"type", "array"}, {"minItems", 2}, {"items", section_of(run_section(inside + key.name))}};
    else value = value_of(key);
    value["description"] = key.meaning;
  }
  if (section.named) schema["additionalProperties"] = section_of(run_section(inside + "*"));
  return schema;
}

}  // namespace

std::string run_file_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "run file"}};
  schema.update(section_of(run_section("")));
  return schema.dump(2) + "\n";
}

}  // namespace meshrt
