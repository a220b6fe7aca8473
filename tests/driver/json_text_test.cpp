// The run file of a bundle is JSON: json_text.cpp, linked into this program in place of yaml_text.cpp.
#include "meshrt/run_file.h"
#include "test_files.h"

namespace meshrt {
namespace {

class JsonTextTest : public testing::Test {
 protected:
  JsonTextTest() { folder_.write("train.bin", "abcd"); }
  RunFile parse(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return parse_run_file("run.json", text, folder_.path(""), overrides);
  }
  std::string error(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return folder_.without_folder(failure_of([&] { parse(text, overrides); }));
  }
  TestFolder folder_;
};

constexpr const char* run = R"({
  // the text to learn
  "data": { "token": { "file": "train.bin", "type": "u16", "to": "95%" } },
  "train": { "steps": 5000, "lr": 3.0e-4, "shuffle": true, "max_time": "1:00:00" },
  "checkpoint": { "dir": "out", "file_size": "1.5 GB" },
  "log": { "watch": ["a", "b"] }
}
)";

TEST_F(JsonTextTest, ReadsWhatYamlWouldSay) {
  const RunFile file = parse(run);
  ASSERT_EQ(file.data.size(), 1U);
  EXPECT_EQ(folder_.without_folder(file.data[0].file.value), "train.bin");
  EXPECT_EQ(file.data[0].file.mark, (Mark{0, 3, 32, 11}));
  EXPECT_EQ(file.data[0].to.value.of(1000), 950);
  EXPECT_EQ(file.train.steps.value, 5000);
  EXPECT_EQ(file.train.rate.value, 3e-4);
  EXPECT_TRUE(file.train.shuffle.value);
  EXPECT_EQ(file.train.max_time.value, 3600);
  EXPECT_EQ(file.checkpoint.file_bytes.value, 1'500'000'000);
  ASSERT_EQ(file.log.watch.size(), 2U);
  EXPECT_EQ(file.log.watch[1].value, "b");
  EXPECT_EQ(parse("").train.seed.value, 1U);
}

TEST_F(JsonTextTest, WritesWhatItReads) {
  const RunFile file = parse(run, {"train.steps=20", "train.seed=7"});
  const RunFile again = parse(file.resolved);
  EXPECT_EQ(again.train.steps.value, 20);
  EXPECT_EQ(again.train.seed.value, 7U);
  EXPECT_EQ(again.data[0].to.value.of(1000), 950);
  EXPECT_EQ(again.resolved, file.resolved);
}

TEST_F(JsonTextTest, TheCommandLineNeedsNoQuotes) {
  const RunFile file = parse(run, {"checkpoint.dir=other/place", "log.watch=[\"c\"]", "data.token.to=50%"});
  EXPECT_EQ(file.checkpoint.folder.value, "other/place");
  ASSERT_EQ(file.log.watch.size(), 1U);
  EXPECT_EQ(file.log.watch[0].value, "c");
  EXPECT_EQ(file.data[0].to.value.of(1000), 500);
}

TEST_F(JsonTextTest, SaysWhereAMistakeIs) {
  EXPECT_EQ(error("{\n  \"train\": { \"stepz\": 10 }\n}\n"),
            "unknown key `stepz` in `train`\n"
            "  --> run.json:2:14\n"
            "2 |   \"train\": { \"stepz\": 10 }\n"
            "  |              ^^^^^^^ did you mean `steps`?");
  EXPECT_EQ(error("{ \"train\": { \"steps\": 1, \"steps\": 2 } }"),
            "`steps` is given twice\n"
            "  --> run.json:1:26\n"
            "1 | { \"train\": { \"steps\": 1, \"steps\": 2 } }\n"
            "  |                          ^^^^^^^ first on line 1");
  EXPECT_EQ(error("{\n  \"train\": }\n").substr(0, 16), "this is not JSON");
  EXPECT_EQ(error(std::string(100, '[')).substr(0, 16), "this is not JSON");
  EXPECT_NE(error(std::string(100, '[') + std::string(100, ']')).find("nested too deeply"), std::string::npos);
}

}  // namespace
}  // namespace meshrt
