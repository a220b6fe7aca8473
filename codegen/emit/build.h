// build.h: an emitted program as a folder that builds: NAME.cpp, build.sh, the run file as NAME.yaml, the binary NAME,
// and what the folder of a run will tell of it: plan.txt, plan.json, spec/.
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <string>

namespace mesh {

struct BuildPlan {
  std::string folder;                             // made where it does not exist
  std::string name;                               // of the program
  std::string text;                               // its C++
  std::string run_file;                           // copied to NAME.yaml, the paths of its data adjusted; empty: none
  bool compile = true;                            // false: only write
  std::string target = "native";                  // the processor that build.sh compiles for
  std::map<std::string, std::string> beside;      // further texts, by their paths in the folder
  std::map<std::string, std::string> along = {};  // files that the run file names and that go with the program: their
                                                  // names in the folder by where they are
};

/// Writes what changed and compiles if anything did, or the runtime has since, or the user says how to compile. Throws
/// meshrt::Failure (Cause::environment) where the folder cannot be written, or where there is no compiler or no
/// runtime; std::logic_error where the compiler rejects the program, with the path of its messages. Returns false when
/// the user interrupted the compiler.
bool build_program(const BuildPlan&);

/// Copies BuildPlan::along into the folder. Throws meshrt::Failure (Cause::environment).
void copy_along(const BuildPlan&, const std::filesystem::path& folder);

/// The folder of the runtime for $MESHRT: what the user has set there, else the build tree or the installation that
/// this meshc belongs to; empty where it belongs to none.
std::string find_runtime();

/// The library of a runtime that programs are linked with; empty where there is none.
std::filesystem::path runtime_library(const std::string& runtime);

/// What a user may set to compile otherwise.
constexpr std::array<const char*, 3> compile_variables = {"CXX", "CXXFLAGS", "TARGET"};

/// Where pkg-config finds meshrt in a build tree or an installation; empty where it is in neither.
std::string package_folder(const std::string& runtime);

/// Lines of a script that set $wide to what tells $cxx how wide the registers of loops are.
extern const char* const choose_vector_width;

/// The text of build.sh for the processor `target` (what -march takes).
std::string build_script(const std::string& name, const std::string& target = "native");

/// A run file's text for another folder: the files that it reads (`file:` below `data` and `validation`) are found
/// relative to where it lies, those of `along` (BuildPlan) in the folder `to` itself.
std::string relocated(const std::string& text, const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::map<std::string, std::string>& along = {});

}  // namespace mesh
