// checkpoint.json.
#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/file_plan.h"
#include "files/file_bytes.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format_name = "meshwright checkpoint";
constexpr int format_version = 1;

constexpr const char *largest = "max", *smallest = "min";  // of a metric, the best

class Reader {
 public:
  Reader(const std::string& path, const Json& object) : path_(path), object_(object) {}

  const Json& find(const char* key) const {
    if (!object_.is_object() || !object_.contains(key)) fail(fmt::format("it has no `{}`", key));
    return object_[key];
  }
  int64_t whole(const char* key) const { return whole(key, find(key)); }
  int64_t whole(const std::string& key, const Json& value) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
      fail(fmt::format("`{}` is not a whole number", key));
    return value.get<int64_t>();
  }
  std::string text(const char* key) const { return text(key, find(key)); }
  const Json& map(const char* key) const {
    if (!find(key).is_object()) fail(fmt::format("`{}` is not a map", key));
    return find(key);
  }
  /// One of those that older programs do not write.
  const Json& optional_map(const char* key) const {
    static const Json none = Json::object();
    return object_.contains(key) ? map(key) : none;
  }
  std::string text(const std::string& key, const Json& value) const {
    if (!value.is_string()) fail(fmt::format("`{}` is not a text", key));
    return value.get<std::string>();
  }
  uint64_t hash(const std::string& tensor, const Json& value) const {
    const std::string digits = value.is_string() ? value.get<std::string>() : "";
    uint64_t hash = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
    if (digits.size() != 16 || error != std::errc() || end != digits.data() + digits.size())
      fail(fmt::format("the hash of `{}` is not one", tensor));
    return hash;
  }
  /// A number that is not finite is written as null.
  double number(const std::string& key, const Json& value) const {
    if (!value.is_number() && !value.is_null()) fail(fmt::format("`{}` is not a number", key));
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }
  bool has(const char* key) const { return object_.contains(key); }
  [[noreturn]] void fail(const std::string& why) const {
    throw Failure(Cause::data, fmt::format("`{}` is damaged: {}", path_, why));
  }

 private:
  const std::string& path_;
  const Json& object_;
};

Json course_json(const Course& course) {
  Json object = Json::object();
  if (course.evaluated >= 0) object["evaluated"] = course.evaluated;
  for (const BestValue& best : course.best) {
    Json one = {{"metric", best.metric}, {"mode", best.largest ? largest : smallest}, {"since", best.since}};
    if (best.step >= 0) one.update({{"value", best.value}, {"step", best.step}});
    object["best"].push_back(one);
  }
  if (course.unlogged > 0) object["unlogged"] = course.unlogged;
  if (!course.sums.empty()) object["sums"] = course.sums;
  return object;
}

BestValue best_of(const std::string& path, const Json& object) {
  const Reader reader(path, object);
  const std::string mode = reader.text("mode");
  if (mode != largest && mode != smallest) reader.fail("the `mode` of a metric is neither min nor max");
  BestValue best{.metric = reader.text("metric"), .largest = mode == largest, .since = reader.whole("since")};
  if (reader.has("step")) {
    best.step = reader.whole("step");
    best.value = reader.number("value", reader.find("value"));
  }
  return best;
}

Course course_of(const std::string& path, const Json& object) {
  const Reader reader(path, object);
  Course course;
  if (reader.has("evaluated")) course.evaluated = reader.whole("evaluated");
  if (reader.has("best") && !reader.find("best").is_array()) reader.fail("`course.best` is not a list");
  if (reader.has("best"))
    for (const Json& one : reader.find("best")) course.best.push_back(best_of(path, one));
  if (reader.has("unlogged")) course.unlogged = reader.whole("unlogged");
  for (const auto& [metric, sum] : reader.optional_map("sums").items())
    course.sums[metric] = reader.number(metric, sum);
  return course;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  Json mesh = Json::object(), hashes = Json::object(), data_files = Json::object();
  for (const auto& [axis, size] : manifest.mesh) mesh[axis] = size;
  for (const auto& [tensor, hash] : manifest.hashes) hashes[tensor] = fmt::format("{:016x}", hash);
  Json object = {{"format", format_name},           {"version", format_version},
                 {"step", manifest.moment.step},    {"position", manifest.moment.position},
                 {"seed", manifest.moment.seed},    {"steps", manifest.moment.steps},
                 {"program", manifest.program},     {"spec", manifest.spec},
                 {"spec_hash", manifest.spec_hash}, {"precision", manifest.precision},
                 {"layout", manifest.layout},       {"mesh", mesh},
                 {"files", manifest.files},         {"hashes", hashes}};
  if (manifest.order > 0) object["order"] = manifest.order;
  if (manifest.course != Course()) object["course"] = course_json(manifest.course);
  if (!manifest.job.empty()) object["job"] = manifest.job;
  if (manifest.rate > 0) object["rate"] = manifest.rate;
  if (!manifest.optimizer.empty()) {
    object["optimizer"] = manifest.optimizer;
    object["settings"] = manifest.settings;
  }
  if (!manifest.data.empty()) object["data"] = manifest.data;
  for (const auto& [name, file] : manifest.data_files)
    data_files[name] = {{"bytes", file.bytes}, {"hash", fmt::format("{:016x}", file.hash)}};
  if (!data_files.empty()) object["data_files"] = data_files;
  if (!manifest.dims.empty()) object["dims"] = manifest.dims;
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";  // paths may be any bytes
}

Manifest read_manifest(const std::string& path) {
  const auto file = FileBytes::open(path, Compression::none);
  const auto* text = reinterpret_cast<const char*>(file->bytes().data());
  const Json object = Json::parse(text, text + file->bytes().size(), nullptr, false);
  const Reader reader(path, object);
  if (object.is_discarded()) reader.fail("it is not JSON");
  if (reader.text("format") != format_name) reader.fail("its `format` is of something else");
  if (const int64_t version = reader.whole("version"); version != format_version)
    throw Failure(Cause::data,
                  fmt::format("`{}` has version {}, this program reads version {}", path, version, format_version));
  Manifest manifest;
  manifest.moment = {reader.whole("step"), reader.whole("position"), static_cast<uint64_t>(reader.whole("seed")),
                     object.contains("steps") ? reader.whole("steps") : 0};
  if (reader.has("order")) manifest.order = reader.whole("order");
  manifest.program = reader.text("program");
  manifest.spec = reader.text("spec");
  manifest.spec_hash = reader.text("spec_hash");
  manifest.precision = reader.text("precision");
  manifest.layout = reader.text("layout");
  for (const auto& [axis, size] : reader.map("mesh").items())
    manifest.mesh.emplace_back(axis, static_cast<int>(reader.whole("mesh." + axis, size)));
  for (const auto& [name, bytes] : reader.map("files").items()) {
    if (name.find('/') != std::string::npos)
      reader.fail(fmt::format("`{}` is not the name of a file in its folder", name));
    manifest.files[name] = reader.whole("files." + name, bytes);
  }
  for (const auto& [tensor, hash] : reader.map("hashes").items()) manifest.hashes[tensor] = reader.hash(tensor, hash);
  manifest.course = course_of(path, reader.optional_map("course"));
  for (const auto& [starter, name] : reader.optional_map("job").items())
    manifest.job[starter] = reader.text("job." + starter, name);
  if (reader.has("rate")) manifest.rate = reader.number("rate", reader.find("rate"));
  if (reader.has("optimizer")) manifest.optimizer = reader.text("optimizer");
  for (const auto& [name, value] : reader.optional_map("settings").items())
    manifest.settings[name] = reader.number("settings." + name, value);
  if (object.contains("data")) manifest.data = reader.text("data");
  for (const auto& [name, file] : reader.optional_map("data_files").items()) {
    if (!file.is_object() || !file.contains("bytes") || !file.contains("hash"))
      reader.fail(fmt::format("the data file `{}` has no `bytes` or no `hash`", name));
    manifest.data_files[name] = {reader.whole("data_files." + name, file["bytes"]), reader.hash(name, file["hash"])};
  }
  for (const auto& [tensor, dims] : reader.optional_map("dims").items()) {
    if (!dims.is_array()) reader.fail(fmt::format("the dims of `{}` are not a list", tensor));
    for (const auto& dim : dims) manifest.dims[tensor].push_back(reader.text("dims." + tensor, dim));
  }
  return manifest;
}

}  // namespace meshrt
