"""A reader of specs of its own, for tests that must not believe meshc's: text to a tree of tuples. Placements (mesh, layout) are left out, and so is
`import`.

Expressions: ("number", n) ("text", s) ("name", n) ("unary", op, x) ("binary", op, x, y) ("call", name, items, args, {name: arg}) ("change", x, items).
Items, what stands between square brackets: ("dims", names, op, new names, op) ("select", dim, expression) ("slice", dim, from, to, step, new dim)
("shift", dim, expression).
Statements: ("bind", names, type, expression) ("param", name, type, initial) ("instance", name, block, items) ("input", name, type) ("state", name, type,
initial) ("next", name, expression) ("repeat", dim, path, body) ("return", expressions) ("minimize", loss, optimizer).
A type is (kind, dims).
"""
import re

TOKEN = re.compile(r'//[^\n]*|(?P<token>\n|"[^"]*"|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|<-|->|\.\.\.|\.\.|==|!=|<=|>=|\S)')
STRENGTH = [("or",), ("and",), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%")]


def tokens(text):
    """Line ends are tokens too, but not between round or square brackets."""
    found, depth = [], 0
    for match in TOKEN.finditer(text):
        token = match["token"]
        if token is None or (token == "\n" and depth):
            continue
        depth += (token in ("(", "[")) - (token in (")", "]"))
        found.append(token)
    return found + ["\n", ""]


def is_name(token):
    return re.match(r"[A-Za-z_]", token) is not None


class Reader:
    def __init__(self, text):
        self.tokens, self.at = tokens(text), 0

    def peek(self, ahead=0):
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, *wanted):
        """Whether the next tokens are these; then they are behind us."""
        found = tuple(self.tokens[self.at:self.at + len(wanted)]) == wanted
        self.at += len(wanted) * found
        return found

    def expect(self, token):
        if not self.take(token):
            raise ValueError(f"`{token}` expected before {self.tokens[self.at:self.at + 8]}")

    def ends(self):
        while self.peek() in ("\n", ";"):
            self.next()

    def listed(self, one, end):
        """one, one, ... end"""
        found = []
        while not self.take(end):
            found.append(one())
            if not self.take(","):
                self.expect(end)
                break
        return found

    # Expressions

    def expression(self, level=0):
        if level == len(STRENGTH):
            return self.negated()
        if STRENGTH[level][0] == "==" and self.take("not"):
            return ("unary", "not", self.expression(level))
        left = self.expression(level + 1)
        while self.peek() in STRENGTH[level]:
            left = ("binary", self.next(), left, self.expression(level + 1))
        return left

    def negated(self):
        if self.take("-"):
            return ("unary", "-", self.negated())
        base = self.postfix()
        return ("binary", "^", base, self.negated()) if self.take("^") else base

    def postfix(self):
        value = self.primary()
        while self.take("["):
            value = ("change", value, self.listed(self.item, "]"))
        return value

    def primary(self):
        token = self.next()
        if token == "(":
            value = self.expression()
            self.expect(")")
            return value
        if token[0].isdigit():
            digits = token.replace("_", "")
            return ("number", int(digits) if digits.isdigit() else float(digits))
        if token[0] == '"':
            return ("text", token[1:-1])
        if not is_name(token):
            raise ValueError(f"no expression: {token!r} before {self.tokens[self.at:self.at + 8]}")
        if token in ("true", "false"):
            return ("number", token == "true")
        if token == "index" and self.peek() == "(":
            self.next()
            self.next()
            self.expect(")")
            token = "i32"
        start, items = self.at, []
        if self.take("["):
            items = self.listed(self.item, "]")
            if self.peek() != "(" and token not in ("size", "position"):
                self.at, items = start, []
        if not self.take("("):
            return ("call", token, items, [], {}) if items else ("name", token)
        args, named = [], {}
        for name, arg in self.listed(self.argument_given, ")"):
            if name:
                named[name] = arg
            else:
                args.append(arg)
        return ("call", token, items, args, named)

    def argument_given(self):
        name = self.next() if is_name(self.peek()) and self.peek(1) == ":" else None
        if name:
            self.next()
        return name, self.expression()

    def item(self):
        first = self.next()
        if self.take("="):
            begin = self.expression()
            if not self.take(".."):
                return ("select", first, begin)
            end = self.expression() if self.peek() not in ("step", "as") else None
            step = self.expression() if self.take("step") else ("number", 1)
            self.expect("as")
            return ("slice", first, begin, end, step, self.next())
        if self.peek() == "-" or (self.peek() == "+" and self.peek(1)[0].isdigit()):
            sign = self.next()
            return ("shift", first, self.expression() if sign == "+" else ("unary", "-", self.expression()))
        names, operator = self.several(first)
        new, other = self.several(self.next()) if self.take("as") else ([], None)
        return ("dims", names, operator, new, other)

    def several(self, first):
        names, operator = [first], None
        while self.peek() in ("*", "+"):
            operator = self.next()
            names.append(self.next())
        return names, operator

    def type(self):
        kind = self.next()
        if kind == "index":
            self.expect("(")
            kind = ("index", self.next())
            self.expect(")")
        return kind, self.listed(self.next, "]") if self.take("[") else []

    # Statements

    def body(self):
        self.expect("{")
        found = []
        self.ends()
        while not self.take("}"):
            found += self.statement()
            self.ends()
        return found

    def statement(self):
        word = self.peek()
        if word in ("param", "input", "state") and is_name(self.peek(1)):
            self.next()
            return self.declaration(word)
        if word == "repeat":
            self.next()
            dim = self.next()
            return [("repeat", dim, self.next() if self.take("as") else dim, self.body())]
        if word == "return":
            self.next()
            return [("return", self.until_end())]
        if word == "minimize":
            self.next()
            loss = self.next()
            self.expect("with")
            return [("minimize", loss, self.expression())]
        if word == "metric":
            self.next()
        if self.peek(1) == "<-":
            name = self.next()
            self.next()
            return [("next", name, self.expression())]
        names = [self.next()]
        while self.take(","):
            names.append(self.next())
        kind = self.type() if self.take(":") else None
        self.expect("=")
        return [("bind", names, kind, self.expression())]

    def until_end(self):
        found = [self.expression()]
        while self.take(","):
            found.append(self.expression())
        return found

    def declaration(self, word):
        names = [self.next()]
        while self.take(","):
            names.append(self.next())
        self.expect(":")
        if word == "param" and self.peek()[0].isupper():
            block = self.next()
            items = self.listed(self.next, "]") if self.take("[") else []
            return [("instance", name, block, items) for name in names]
        kind = self.type()
        initial = self.expression() if self.take("=") else None
        return [(word, name, kind) if word == "input" else (word, name, kind, initial) for name in names]

    # Files

    def file(self):
        """{"dims": {name: (size, edge)}, "blocks": {name: (dims, [(argument, type)], [result's type], body)}, "model": body}, sizes and edges as expressions."""
        found = {"dims": {}, "blocks": {}, "model": None}
        self.ends()
        while word := self.next():
            if word == "dim":
                for name, size, edge in self.dims():
                    found["dims"][name] = (size, edge)
            elif word == "block":
                name = self.next()
                dims = self.listed(self.next, "]") if self.take("[") else []
                self.expect("(")
                arguments = self.listed(self.argument, ")")
                self.expect("->")
                results = self.listed(self.type, ")") if self.take("(") else [self.type()]
                found["blocks"][name] = (dims, arguments, results, self.body())
            elif word == "model":
                self.next()
                found["model"] = self.body()
            elif word in ("mesh", "layout"):
                self.skip()
            else:
                raise ValueError(f"no declaration: {word!r}")
            self.ends()
        return found

    def dims(self):
        while True:
            name = self.next()
            self.expect("=")
            size = self.expression()
            yield name, size, self.expression() if self.take("edge") else None
            if not self.take(","):
                return

    def argument(self):
        name = self.next()
        self.expect(":")
        return name, self.type()

    def skip(self):
        """Up to the end of the braces that come next."""
        depth = 0
        while depth or self.peek() != "\n":
            depth += {"{": 1, "}": -1}.get(self.next(), 0)


def read(text):
    return Reader(text).file()
