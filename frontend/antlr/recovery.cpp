#include "frontend/antlr/recovery.h"

#include "frontend/syntax_errors.h"
#include "MeshParser.h"

namespace mesh {

namespace {

using syntax::MeshParser;

class StatementErrors : public antlr4::DefaultErrorStrategy {
 public:
  StatementErrors(const Arranged& arranged, DiagnosticSink& sink) : arranged_(arranged), sink_(sink) {}

  // Called where a loop or an option begins: remembers what could have gone on there, for the message.
  void sync(antlr4::Parser* base) override {
    const std::size_t at = base->getCurrentToken()->getTokenIndex();
    if (at != choices_at_) choices_.clear();
    choices_at_ = at;
    choices_.push_back(base->getState());
  }

  void reportError(antlr4::Parser* base, const antlr4::RecognitionException& error) override {
    if (inErrorRecoveryMode(base)) return;
    beginErrorCondition(base);
    const auto* stuck = dynamic_cast<const antlr4::NoViableAltException*>(&error);
    report(parser(base), error.getOffendingToken(),
           stuck != nullptr ? expected_by(*base, *stuck) : base->getExpectedTokens());
  }

  antlr4::Token* recoverInline(antlr4::Parser* base) override {
    if (!open_list(base->getContext())) throw antlr4::InputMismatchException(base);
    if (!inErrorRecoveryMode(base)) {
      beginErrorCondition(base);
      report(parser(base), base->getCurrentToken(), base->getExpectedTokens());
    }
    return finish_list(parser(base));
  }

  void recover(antlr4::Parser* base, std::exception_ptr error) override {
    if (open_list(base->getContext())) {
      finish_list(parser(base));
    } else if (is_element(base->getContext())) {
      skip_element(parser(base));
    } else {
      std::rethrow_exception(error);
    }
  }

 private:
  static MeshParser& parser(antlr4::Parser* base) { return *dynamic_cast<MeshParser*>(base); }

  static bool is_list(const antlr4::ParserRuleContext* context) {
    switch (context->getRuleIndex()) {
      case MeshParser::RuleFile:
      case MeshParser::RuleBody:
      case MeshParser::RuleRules:
      case MeshParser::RuleLimits:
      case MeshParser::RuleGroups: return true;
      default: return false;
    }
  }

  // A list whose `{` is behind us.
  static bool open_list(const antlr4::ParserRuleContext* context) {
    return is_list(context) && (context->getRuleIndex() == MeshParser::RuleFile || !context->children.empty());
  }

  static bool is_element(const antlr4::ParserRuleContext* context) {
    switch (context->getRuleIndex()) {
      case MeshParser::RuleDecl:
      case MeshParser::RuleStatement:
      case MeshParser::RuleRule_:
      case MeshParser::RuleLimit:
      case MeshParser::RuleGroup: return true;
      default: return false;
    }
  }

  static void parse_element(MeshParser& parser, std::size_t list) {
    switch (list) {
      case MeshParser::RuleFile: parser.decl(); break;
      case MeshParser::RuleBody: parser.statement(); break;
      case MeshParser::RuleRules: parser.rule_(); break;
      case MeshParser::RuleLimits: parser.limit(); break;
      default: parser.group(); break;
    }
  }

  const Token& here(MeshParser& parser) const { return arranged_.tokens[parser.getCurrentToken()->getTokenIndex()]; }

  // Goes to the end of the statement, over whole pairs of braces.
  void skip_statement(MeshParser& parser, int depth, bool look_into_bodies) {
    for (;; parser.consume()) {
      const Token& token = here(parser);
      if (token.kind == TokenKind::end || (depth == 0 && (token.ends_statement() || token.is("}")))) return;
      if (depth == 0 && look_into_bodies && token.is("{")) {
        endErrorCondition(&parser);
        parser.body();  // for its errors: the head is wrong, so it belongs to nothing
        look_into_bodies = false;
        beginErrorCondition(&parser);
        if (here(parser).ends_statement() || here(parser).is("}")) return;
      }
      depth += here(parser).is("{") ? 1 : here(parser).is("}") ? -1 : 0;
    }
  }

  void skip_element(MeshParser& parser) {
    const std::size_t first = parser.getContext()->start->getTokenIndex();
    const std::size_t current = parser.getCurrentToken()->getTokenIndex();
    int depth = 0;
    for (std::size_t at = first; at < current; ++at) {
      depth += arranged_.tokens[at].is("{") ? 1 : arranged_.tokens[at].is("}") ? -1 : 0;
    }
    const Token& word = arranged_.tokens[first];
    skip_statement(parser, depth,
                   depth == 0 && (word.is("block") || word.is("model") || word.is("repeat") || word.is("manual")));
  }

  // Parses what is left of a list after something in it did not fit; its elements become children of the list.
  antlr4::Token* finish_list(MeshParser& parser) {
    const std::size_t list = parser.getContext()->getRuleIndex();
    for (;;) {
      skip_statement(parser, 0, false);
      while (here(parser).kind != TokenKind::end && here(parser).ends_statement()) parser.consume();
      const Token& token = here(parser);
      if (token.kind == TokenKind::end || token.is("}")) {
        antlr4::Token* closer = parser.getCurrentToken();
        parser.consume();
        endErrorCondition(&parser);
        return closer;
      }
      endErrorCondition(&parser);
      parse_element(parser, list);
      if (inErrorRecoveryMode(&parser) || here(parser).ends_statement() || here(parser).is("}")) continue;
      beginErrorCondition(&parser);
      report(parser, parser.getCurrentToken(), antlr4::misc::IntervalSet::of(MeshParser::NL));
    }
  }

  // What could have stood where every alternative of the grammar died.
  static antlr4::misc::IntervalSet expected_by(antlr4::Parser& parser, const antlr4::NoViableAltException& error) {
    antlr4::misc::IntervalSet expected;
    if (error.getDeadEndConfigs() == nullptr) return parser.getExpectedTokens();
    for (const auto& config : error.getDeadEndConfigs()->configs) {
      expected.addAll(parser.getATN().nextTokens(config->state));
    }
    return expected;
  }

  void report(MeshParser& parser, antlr4::Token* offending, antlr4::misc::IntervalSet expected) {
    SyntaxFault fault{arranged_.tokens, 0, offending->getTokenIndex(), {}, {}, {}};
    for (const std::size_t state : choices_) {
      const auto* choice = parser.getATN().states[state];
      const bool here = choices_at_ == fault.at && choice->ruleIndex == parser.getContext()->getRuleIndex();
      if (here) expected.addAll(parser.getATN().nextTokens(parser.getATN().states[state]));
    }
    for (const auto type : expected.toList()) {
      if (type == antlr4::Token::EPSILON) continue;
      fault.expected.push_back(
          type == antlr4::Token::EOF ? "EOF" : parser.getVocabulary().getDisplayName(static_cast<std::size_t>(type)));
    }
    auto* context = parser.getContext();
    fault.rule = parser.getRuleNames()[context->getRuleIndex()];
    auto* element = context;
    while (!is_element(element) && !open_list(element))
      element = dynamic_cast<antlr4::ParserRuleContext*>(element->parent);
    fault.first = open_list(element) ? first_after_separator(fault.at) : element->start->getTokenIndex();
    auto* list = element;
    while (!open_list(list)) list = dynamic_cast<antlr4::ParserRuleContext*>(list->parent);
    fault.list = parser.getRuleNames()[list->getRuleIndex()];

    const Token& token = arranged_.tokens[fault.at];
    const std::uint32_t begin = arranged_.tokens[fault.first].span.begin;
    const std::uint32_t end = token.kind == TokenKind::newline ? token.span.begin : token.span.end;
    if (arranged_.was_reported(Span{token.span.file, begin, end})) return;
    report_syntax_fault(fault, sink_);
  }

  // Where the statement of a token begins, going back over whole pairs of braces.
  std::size_t first_after_separator(std::size_t at) const {
    int depth = 0;
    while (at > 0) {
      const Token& token = arranged_.tokens[at - 1];
      if (depth == 0 && (token.ends_statement() || token.is("{"))) return at;
      depth += token.is("}") ? 1 : token.is("{") ? -1 : 0;
      --at;
    }
    return at;
  }

  const Arranged& arranged_;
  DiagnosticSink& sink_;
  std::vector<std::size_t> choices_;  // states of the parser at token `choices_at_`
  std::size_t choices_at_ = 0;
};

}  // namespace

std::shared_ptr<antlr4::ANTLRErrorStrategy> recover_by_statements(const Arranged& arranged, DiagnosticSink& sink) {
  return std::make_shared<StatementErrors>(arranged, sink);
}

}  // namespace mesh
