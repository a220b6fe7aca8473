// program_cache.h: the programs that `meshc run` has built, so that the next run of the same text begins at once.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace mesh {

/// The program of an emitted text, compiled now unless the cache has it: one for each text, compiler and runtime
/// library. `beside` are files to go with it, by their names. The hundred used last are kept. Nothing: interrupted.
std::optional<std::filesystem::path> cached_program(const std::string& name, const std::string& text,
                                                    const std::map<std::string, std::string>& beside);

}  // namespace mesh
