// The JSON Schema of run files, made of the table of their keys.
#include <nlohmann/json.hpp>

#include "meshrt/run_keys.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;
using Kind = RunKey::Kind;

// Readers of YAML differ in what they take for a number: 1e-3 and 23:50:00 may come as texts or as numbers.
Json value_of(const RunKey& key) {
  switch (key.kind) {
    case Kind::whole: return {{"type", "integer"}, {"minimum", key.least}};
    case Kind::positive:
      return {{"anyOf",
               {{{"type", "number"}, {"exclusiveMinimum", 0}},
                {{"type", "string"}, {"pattern", "^[0-9_.]+([eE][-+]?[0-9]+)?$"}}}}};
    case Kind::text: return {{"type", {"string", "number"}}, {"minLength", 1}};
    case Kind::texts:
      return {{"anyOf",
               {{{"type", {"string", "number"}}, {"minLength", 1}},
                {{"type", "array"}, {"minItems", 1}, {"items", {{"type", "string"}, {"minLength", 1}}}}}}};
    case Kind::word: return {{"enum", key.words}};
    case Kind::truth: return {{"type", "boolean"}};
    case Kind::bytes:
      return {
          {"anyOf",
           {{{"type", "integer"}, {"minimum", 1}}, {{"type", "string"}, {"pattern", "^[0-9_.]+ *([KMG]i?B|kB|B)?$"}}}}};
    case Kind::cut:
      return {
          {"anyOf",
           {{{"type", "integer"}, {"minimum", 0}}, {{"type", "string"}, {"pattern", "^[0-9]+([.][0-9]{1,6})?%$"}}}}};
    case Kind::duration:
      return {{"anyOf",
               {{{"type", "integer"}, {"minimum", 1}},
                {{"type", "string"}, {"pattern", "^([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}$"}}}}};
    case Kind::range:
      return {
          {"anyOf",
           {{{"type", "integer"}, {"minimum", 1}}, {{"type", "string"}, {"pattern", "^[0-9_]+([.][.][0-9_]+)?$"}}}}};
    case Kind::names: return {{"type", "array"}, {"items", {{"type", "string"}}}};
    case Kind::files:
    case Kind::section: break;
  }
  return Json::object();
}

Json section_of(const RunSection& section) {
  Json schema = {{"type", {"object", "null"}}, {"properties", Json::object()}, {"additionalProperties", false}};
  const std::string inside = section.path.empty() ? "" : section.path + ".";
  for (const RunKey& key : section.keys) {
    Json& value = schema["properties"][key.name];
    if (key.kind == Kind::section) value = section_of(run_section(inside + key.name));
    else if (key.kind == Kind::files)
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
