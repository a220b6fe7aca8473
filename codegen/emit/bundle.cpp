#include "codegen/emit/bundle.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "meshrt/failure.h"

namespace mesh {

namespace fs = std::filesystem;
using meshrt::Cause, meshrt::Failure;
using Json = nlohmann::ordered_json;

namespace {

/// A variable of the runtime's pkg-config file; empty where it has none.
std::string runtime_variable(const char* name) {
  const std::string command =
      fmt::format("PKG_CONFIG_PATH='{}':\"$PKG_CONFIG_PATH\" pkg-config --variable={} meshrt 2>/dev/null",
                  package_folder(find_runtime()), name);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 4096> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "";
  std::string text = line.data();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Json json_of(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar: {
      // Quoted text stays text; 5_000 is not JSON, and read as a number all the same.
      const Json value = node.Tag() == "!" ? Json() : Json::parse(node.Scalar(), nullptr, false);
      return value.is_number() || value.is_boolean() ? value : Json(node.Scalar());
    }
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const YAML::Node& item : node) list.push_back(json_of(item));
      return list;
    }
    case YAML::NodeType::Map: {
      Json map = Json::object();
      for (const auto& entry : node) map[entry.first.Scalar()] = json_of(entry.second);
      return map;
    }
    default: return nullptr;
  }
}

class Bundle {
 public:
  explicit Bundle(const BuildPlan& plan) : plan_(plan), folder_(plan.folder) {}

  size_t write_all() {
    const fs::path sources = runtime_variable("sources"), headers = runtime_variable("headers");
    if (!fs::exists(sources / "build.sh"))
      throw Failure(Cause::environment,
                    "the sources of the runtime were not found: set MESHRT to the folder that it was built in or "
                    "installed to, and install pkg-config");
    write(plan_.name + ".cpp", plan_.text);
    write("build.sh", script());
    fs::permissions(folder_ / "build.sh", fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                    fs::perm_options::add);
    write("README.md", readme());
    if (!plan_.run_file.empty()) write(plan_.name + ".json", run_file());
    for (const auto& [path, text] : plan_.beside) write(path, text);
    copy_along(plan_, folder_);

    copy(sources / "build.sh", "runtime/build.sh");
    copy_tree(sources / "src", "runtime/src");
    copy_tree(sources / "include", "runtime/include");
    for (const fs::path& licence : {sources / "LICENSE", sources.parent_path() / "LICENSE"})
      if (fs::exists(licence)) {
        copy(licence, "runtime/LICENSE");
        break;
      }
    for (const auto& [library, package] : {std::pair{"fmt", "libfmt-dev"}, std::pair{"nlohmann", "nlohmann-json3-dev"},
                                           std::pair{"CLI", "libcli11-dev"}}) {
      copy_tree(headers / library, fs::path("runtime/headers") / library);
      const fs::path licence = fs::path("/usr/share/doc") / package / "copyright";
      if (fs::exists(licence)) copy(licence, fs::path("runtime/headers") / library / "LICENSE");
    }
    return files_;
  }

 private:
  [[noreturn]] static void fail(const fs::path& path, const std::string& why) {
    throw Failure(Cause::environment, fmt::format("cannot write {}: {}", path.string(), why));
  }

  fs::path place_for(const fs::path& path) {
    fs::path place = folder_ / path;
    std::error_code error;
    fs::create_directories(place.parent_path(), error);
    if (error) fail(place, error.message());
    ++files_;
    return place;
  }

  void write(const fs::path& path, const std::string& text) {
    const fs::path place = place_for(path);
    std::ofstream file(place, std::ios::binary);
    if (!(file << text).flush()) fail(place, std::strerror(errno));
  }

  void copy(const fs::path& from, const fs::path& path) {
    const fs::path place = place_for(path);
    std::error_code error;
    fs::copy_file(from, place, fs::copy_options::overwrite_existing, error);
    if (error) fail(place, error.message());
  }

  /// C++ files alone.
  void copy_tree(const fs::path& from, const fs::path& path) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from, error)) {
      const std::string ending = entry.path().extension().string();
      if (entry.is_regular_file() && (ending == ".h" || ending == ".hpp" || ending == ".cpp"))
        copy(entry.path(), path / fs::relative(entry.path(), from));
    }
    if (error) throw Failure(Cause::environment, fmt::format("cannot read {}: {}", from.string(), error.message()));
  }

  std::string run_file() const {
    std::ifstream file(plan_.run_file, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    const fs::path from = fs::path(plan_.run_file).parent_path();
    try {
      const Json json = json_of(YAML::Load(relocated(text.str(), from, fs::absolute(folder_), plan_.along)));
      return json.is_null() ? "" : json.dump(2) + "\n";
    } catch (const YAML::Exception& error) {
      throw Failure(Cause::data, fmt::format("{} is not YAML: {}", plan_.run_file, error.what()));
    }
  }

  std::string script() const {
    return fmt::format(R"sh(#!/bin/sh
# Builds {0} and runtime/meshrun, from the sources in this folder alone. CXX, CXXFLAGS, TARGET (what -march takes) and
# UCX (its folder) may be set.
set -eu
cd "$(dirname "$0")"
sh runtime/build.sh
cxx=${{CXX:-c++}}
{2}
# The numbers must not depend on what the compiler fuses: no -ffast-math, no contraction.
# shellcheck disable=SC2046,SC2086
exec "$cxx" -std=c++20 -O3 -march="${{TARGET:-{1}}}" $wide -ffp-contract=off -fno-math-errno -DFMT_HEADER_ONLY \
  -Iruntime/include -isystem runtime/headers ${{CXXFLAGS:-}} {0}.cpp runtime/libmeshrt.a $(cat runtime/objects/libraries) -o {0}
)sh",
                       plan_.name, plan_.target, choose_vector_width);
  }

  std::string readme() const {
    const std::string run = plan_.run_file.empty() ? "" : fmt::format(" {}.json", plan_.name);
    return fmt::format(
        "# {0}\n\nA program written by `meshc build --bundle`, with the runtime that it needs.\n\n"
        "    sh build.sh                    # needs a C++20 compiler and the headers of UCX; no root\n"
        "    ./{0} -n 2{1}\n"
        "    runtime/meshrun -n 2 ./{0}{1}\n\n"
        "UCX is loaded at run time, by the jobs that use it. The run file is JSON here, for there may be no YAML "
        "library; "
        "its paths\nare relative to this folder.\n",
        plan_.name, run);
  }

  const BuildPlan& plan_;
  const fs::path folder_;
  size_t files_ = 0;
};

}  // namespace

size_t write_bundle(const BuildPlan& plan) { return Bundle(plan).write_all(); }

}  // namespace mesh
