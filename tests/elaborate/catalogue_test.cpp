// Every function that a spec can call has its text in the catalogue, with its settings. That what the texts call
// compiles, and gives what they say, `tests/full reference` tries.
#include "codegen/elaborate/catalogue.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "codegen/elaborate/functions.h"

namespace mesh {
namespace {

using Settings = std::map<std::string, std::set<std::string>>;  // of each function

Settings settings_told() {
  Settings told;
  const std::regex name("`(\\w+):`");
  for (const CatalogueFamily& family : catalogue())
    for (const CatalogueEntry& entry : family.entries) {
      std::set<std::string>& settings = told[entry.name];
      for (std::sregex_iterator at(entry.settings.begin(), entry.settings.end(), name), end; at != end; ++at)
        settings.insert((*at)[1]);
    }
  return told;
}

Settings settings_taken() {
  Settings taken;
  for (const std::string& name : elaboration::function_names())
    for (const elaboration::Function* function : elaboration::functions_named(name)) {
      taken[name].insert(function->options.begin(), function->options.end());
      taken[name].insert(function->words.begin(), function->words.end());
    }
  return taken;
}

TEST(Catalogue, TellsOfEveryFunction) {
  const Settings told = settings_told();
  for (const auto& [name, settings] : settings_taken())
    EXPECT_TRUE(told.count(name)) << name << " has no text in codegen/elaborate/catalogue/";
}

TEST(Catalogue, TellsOfEverySettingAndOfNoOther) {
  const Settings told = settings_told();
  for (const auto& [name, settings] : settings_taken()) EXPECT_EQ(told.at(name), settings) << name;
}

TEST(Catalogue, EndsItsSentences) {
  for (const CatalogueFamily& family : catalogue())
    for (const CatalogueEntry& entry : family.entries) EXPECT_TRUE(entry.meaning.ends_with('.')) << entry.name;
}

}  // namespace
}  // namespace mesh
