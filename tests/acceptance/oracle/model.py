"""Models of specs computed in PyTorch (f64, autograd): every named value, the gradients, the parameters after steps."""
import math

import torch

from . import named as ops
from .named import Named, is_number, named
from .reader import read

REDUCTIONS = {"sum": ops.total, "mean": ops.mean, "max": ops.extreme(torch.amax, -math.inf), "min": ops.extreme(torch.amin, math.inf), "logsumexp": ops.logsumexp,
              "softmax": ops.softmax, "log_softmax": ops.log_softmax, "argmax": ops.argmax, "cumsum": ops.cumsum, "sort": ops.sort}


class Instance:
    """A block with parameters of its own: its dims, its path where parameters are, that of its first call's values, the turns of the loops around its
    declaration."""

    def __init__(self, name, block, dims, frame):
        self.block, self.dims, self.path, self.call, self.declared = block, dims, frame.path + name, frame.call + name, frame.declared


class Frame:
    """Where statements stand: the paths before the names of their parameters and of their values, the turns of the loops around them (as computed, and as
    their parameters are declared), what names mean, what a block's dims are here, and what names were in the turns of loops that have ended."""

    def __init__(self, path="", call="", turns=(), declared=(), names=None, dims=None):
        self.path, self.call, self.turns, self.declared, self.names, self.dims = path, call, turns, declared, names if names is not None else {}, dims or {}
        self.ended = {}

    def dim(self, name):
        return self.dims.get(name, name)

    def turn_of(self, path, dim, turn, names):
        """The inside of a loop, in one of its turns."""
        here = ((dim, turn),)
        return Frame(f"{self.path}{path}.", f"{self.call}{path}.", self.turns + here, self.declared + here, names, self.dims)


class Model:
    """`draw(path, kind, shape)` gives the array of an input ("real", "bool" or a number: an index below it) or of a parameter ("param")."""

    def __init__(self, text, draw):
        spec = read(text)
        self.draw, self.blocks, self.body = draw, spec["blocks"], spec["model"]
        self.sizes, self.edges, self.together = {}, {}, set()  # together: the dims of every parameter, and of every value that an expression gives
        for name, (size, edge) in spec["dims"].items():
            self.sizes[name] = self.expression(size, Frame(names=self.sizes))
            if edge is not None:
                self.edges[name] = self.expression(edge, Frame())
        self.inputs, self.params, self.states = {}, {}, {}

    def compute(self):
        """{path: tensor}, a name inside loops with their dims in front, a state as it is afterwards; {path: gradient}."""
        self.found, self.next, self.optimizer, self.calls = {}, {}, None, {}
        self.statements(self.body, Frame())
        values = {**{path: self.brought_together(turns) for path, (_, turns) in self.found.items()}, **self.next}
        gradients = {}
        if self.optimizer:
            loss = values[self.optimizer[0]]
            for path, gradient in zip(self.params, torch.autograd.grad(loss, list(self.params.values()), allow_unused=True)):
                gradients[path] = torch.zeros_like(self.params[path]) if gradient is None else gradient
        return {path: value.detach().clone() for path, value in values.items()}, gradients

    def train(self, steps):
        """Values and gradients of the last step; parameters and states after it."""
        optimizer = None
        for _ in range(steps):
            values, gradients = self.compute()
            optimizer, largest = optimizer or self.torch_optimizer(self.optimizer[1])
            for path, gradient in gradients.items():  # zeros where the loss does not read a parameter: it decays
                self.params[path].grad = gradient.clone()
            if largest:
                torch.nn.utils.clip_grad_norm_(self.params.values(), largest)
            optimizer.step()
            optimizer = optimizer, largest
            self.states.update(self.next)
        return values, gradients

    def torch_optimizer(self, call):
        settings = {name: self.expression(value, Frame()) for name, value in call[4].items()}
        largest = settings.pop("clip", None)
        if "epsilon" in settings:
            settings["eps"] = settings.pop("epsilon")
        make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[call[1]]
        return make(list(self.params.values()), **settings), largest

    def brought_together(self, turns):
        """{(turn of the outer loop, of the inner one, ...): data} as one tensor."""
        if () in turns:
            return turns[()]
        count = 1 + max(turn[0] for turn in turns)
        return torch.stack([self.brought_together({turn[1:]: data for turn, data in turns.items() if turn[0] == i}) for i in range(count)])

    # Statements

    def statements(self, body, frame):
        for statement in body:
            if statement[0] == "return":
                return [self.expression(e, frame) for e in statement[1]]
            getattr(self, "do_" + statement[0])(frame, *statement[1:])
        return None

    def remember(self, frame, name, value):
        frame.names[name] = value
        self.record(frame, frame.call + name, value)

    def record(self, frame, path, value):
        loops, turns = self.found.get(path, ((), {}))
        here = tuple(dim for dim, _ in frame.turns)
        turns = turns if loops == here else {}
        turns[tuple(turn for _, turn in frame.turns)] = named(value).data
        self.found[path] = here, turns

    def do_bind(self, frame, names, kind, expression):
        values = self.expression(expression, frame)
        values = values if isinstance(values, (list, tuple)) else [values]
        if len(values) != len(names):
            raise ValueError(f"{len(values)} values for {names}")
        for name, value in zip(names, values):
            self.remember(frame, name, self.of_type(named(value), kind, frame.dims) if kind else value)

    def do_input(self, frame, name, kind):
        what, dims = kind
        if name not in self.inputs:
            self.inputs[name] = torch.as_tensor(self.draw(name, self.sizes[what[1]] if isinstance(what, tuple) else what, [self.sizes[d] for d in dims]))
        frame.names[name] = Named(dims, self.inputs[name])

    def do_param(self, frame, name, kind, initial):
        path, dims = frame.path + name, [frame.dim(d) for d in kind[1]]
        if path not in self.params:
            stacked = [self.sizes[d] for d, _ in frame.declared]
            self.params[path] = torch.as_tensor(self.draw(path, "param", stacked + [self.sizes[d] for d in dims])).requires_grad_()
        self.together.add(frozenset(dims))
        data = self.params[path]
        for _, turn in frame.declared:
            data = data[turn]
        frame.names[name] = Named(dims, data)

    def do_state(self, frame, name, kind, initial):
        """In a loop there is one for every turn."""
        path, dims = frame.path + name, [frame.dim(d) for d in kind[1]]
        if path not in self.states:
            stacked = [self.sizes[d] for d, _ in frame.declared]
            value = initial[1] if initial[0] == "number" else {"zeros": 0.0, "ones": 1.0}[initial[1]]
            self.states[path] = torch.full(stacked + [self.sizes[d] for d in dims], float(value), dtype=torch.float64)
        frame.names[name] = Named(dims, self.states[path][tuple(turn for _, turn in frame.declared)])

    def do_next(self, frame, name, expression):
        dims, path = frame.names[name].dims, frame.path + name
        value = ops.along(self.expression(expression, frame), dims).expand([self.sizes[d] for d in dims]).detach()
        new = self.next.setdefault(path, torch.full_like(self.states[path], math.nan))
        new[tuple(turn for _, turn in frame.declared)] = value

    def do_instance(self, frame, name, block, items):
        frame.names[name] = Instance(name, block, [frame.dim(d) for d in items], frame)

    def do_repeat(self, frame, dim, path, body):
        before = set(frame.names)
        inside, turns = dict(frame.names), {}
        for turn in range(self.sizes[dim]):
            for name in set(inside) - before:
                del inside[name]
            self.statements(body, frame.turn_of(path, dim, turn, inside))
            for name, value in inside.items():
                if name in before and value is not frame.names[name]:
                    value = inside[name] = self.as_declared(named(value), named(frame.names[name]))
                if not isinstance(value, Instance):
                    turns.setdefault(name, []).append(named(value))
        for name in before:
            if frame.names[name] is not inside[name]:
                # what a loop carries is a new value of the name
                self.remember(frame, name, inside[name])
        frame.ended[dim] = turns

    def as_declared(self, value, first):
        """A carry keeps its type, and with it the order of its dims; a number takes that of what it becomes."""
        return Named(first.dims, ops.along(value, first.dims)) if set(value.dims) == set(first.dims) else value

    def do_minimize(self, frame, loss, optimizer):
        self.optimizer = loss, optimizer

    # Expressions

    def expression(self, e, frame):
        value = getattr(self, "value_of_" + e[0])(frame, *e[1:])
        if isinstance(value, Named):
            self.together.add(frozenset(value.dims))
        return value

    def value_of_number(self, frame, number):
        return number

    def value_of_text(self, frame, text):
        return text

    def value_of_name(self, frame, name):
        """What is computed here is a step of training."""
        return Named((), torch.tensor(True)) if name == "training" else frame.names[name]

    def value_of_unary(self, frame, op, x):
        x = self.expression(x, frame)
        if is_number(x):
            return -x if op == "-" else not x
        return Named(x.dims, -x.data if op == "-" else ~x.data)

    def value_of_binary(self, frame, op, x, y):
        return ops.binary(op, self.expression(x, frame), self.expression(y, frame))

    def value_of_call(self, frame, name, items, args, settings):
        place = id(args)  # of the call in the text
        if name == "collect":
            return self.collected(frame, frame.dim(items[0][1][0]), args[0][1])
        block = frame.names.get(name)
        args = [self.expression(a, frame) for a in args]
        settings = {key: self.expression(value, frame) for key, value in settings.items()}
        if isinstance(block, Instance):
            return self.called(frame, block, args, place)
        if name in self.blocks:
            return self.called(frame, Instance(name, name, [frame.dim(d) for item in items for d in item[1]], frame), args, place)
        over = [frame.dim(d) for item in items if item[0] == "dims" for d in item[1]]
        to = [frame.dim(d) for item in items if item[0] == "dims" for d in item[3]]
        if name in REDUCTIONS and items:
            return REDUCTIONS[name](args[0], over, **settings)
        if name in ops.FUNCTIONS:
            return Named(args[0].dims, ops.FUNCTIONS[name](args[0].data)) if isinstance(args[0], Named) else ops.FUNCTIONS[name](torch.tensor(float(args[0]), dtype=torch.float64)).item()
        if name in ("max", "min"):
            return ops.elementwise(ops.larger if name == "max" else ops.smaller, *args)
        special = {
            "size": lambda: math.prod(self.sizes[d] for d in over),
            "position": lambda: self.position(frame, over[0]),
            "where": lambda: ops.where(*args),
            "mask": lambda: ops.mask(*args),
            "dot": lambda: ops.dot(*args, over),
            "outer": lambda: ops.outer(*args),
            "broadcast": lambda: ops.widened(args[0], args[0].dims + tuple(over), self.sizes),
            "take": lambda: ops.take(args[0], over[0], args[1]),
            "one_hot": lambda: ops.one_hot(args[0], over[0], self.sizes[over[0]]),
            "cross_entropy": lambda: ops.cross_entropy(args[0], over[0], args[1], **settings),
            "top_k": lambda: ops.top_k(args[0], over[0], to[0], self.sizes[to[0]]),
            "concat": lambda: self.concat(*args, *over, *to),
            "stack": lambda: ops.stack([named(a) for a in args], over[0]),
            "pad": lambda: ops.pad(args[0], over[0], to[0], self.sizes[to[0]], **settings),
        }
        return special[name]()

    def concat(self, x, y, first, second, to):
        """Both operands are values with all of the result's other dims, too."""
        both = ops.concat(x, first, y, second, to, self.sizes)
        self.together |= {frozenset(both.dims) - {to} | {dim} for dim in (first, second)}
        return both

    def position(self, frame, dim):
        turns = dict(frame.turns)
        return Named((), torch.tensor(turns[dim])) if dim in turns else Named((dim,), torch.arange(self.sizes[dim]))

    def collected(self, frame, dim, name):
        turns = frame.ended[dim][name]
        return Named((dim, *turns[0].dims), torch.stack([ops.along(value, turns[0].dims) for value in turns]))

    def called(self, frame, instance, args, place):
        """A block's results: one, or a list. Values of the second call that the text holds have `#2` in their path."""
        places = self.calls.setdefault(instance.call, [])
        if place not in places:
            places.append(place)
        number = places.index(place) + 1
        call = instance.call if number == 1 else f"{instance.call}#{number}"
        formal, arguments, types, body = self.blocks[instance.block]
        dims = dict(zip(formal, instance.dims))
        names = {name: self.of_type(named(value), kind, dims) for (name, kind), value in zip(arguments, args)}
        frame = Frame(f"{instance.path}.", f"{call}.", frame.turns, instance.declared, names, dims)
        results = [self.of_type(named(value), kind, dims) for value, kind in zip(self.statements(body, frame), types)]
        if len(results) > 1:
            return results
        self.record(frame, call, results[0])
        return results[0]

    def of_type(self, value, kind, dims):
        """Repeated along what it lacks of a written type, in the type's order; `...` are its other dims."""
        declared = [dims.get(d, d) for d in kind[1]]
        others = [d for d in value.dims if d not in declared]
        order = [e for d in declared for e in (others if d == "..." else [d])]
        return value if value.keep is not None else ops.widened(value, order, self.sizes)

    def value_of_change(self, frame, x, items):
        """All changes at once: new dims get their names last."""
        x, new = self.expression(x, frame), {}

        def fresh(dim):
            new["new " + dim] = frame.dim(dim)
            return "new " + dim

        for kind, first, *rest in items:
            if kind == "dims":
                old, (_, to, _) = [frame.dim(d) for d in first], rest
                if len(old) > 1:
                    x = ops.merge(x, old, fresh(to[0]))
                else:
                    x = ops.split(x, old[0], [fresh(d) for d in to], {"new " + d: self.sizes[frame.dim(d)] for d in to})
                continue
            dim = frame.dim(first)
            at = x.dims.index(dim)
            if kind == "shift":
                x = ops.shift(x, dim, self.number(rest[0], frame), self.edges[dim])
            elif kind == "select":
                x = Named(ops.without(x.dims, (dim,)), x.data.select(at, self.number(rest[0], frame)))
            else:
                begin, end, step, to = rest
                end = self.sizes[dim] if end is None else self.number(end, frame)
                numbers = torch.arange(self.number(begin, frame), end, self.number(step, frame))
                x = Named(x.dims[:at] + (fresh(to),) + x.dims[at + 1:], x.data.index_select(at, numbers))
        return Named([new.get(d, d) for d in x.dims], x.data)

    def number(self, expression, frame):
        """What is known when a spec is compiled: dims stand for their sizes."""
        return self.expression(expression, Frame(names={**self.sizes, **{d: self.sizes[e] for d, e in frame.dims.items()}}))
