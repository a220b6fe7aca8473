"""Attention of a random model: positions along a dim see their copies under another name, all of them or those that a mask of positions leaves, now and then
with queries that share keys, and layer by layer."""
from .brackets import LIMIT

LEAST = 3  # positions, so that masks differ


class Attention:
    def attention(self, scope):
        """Whether a value could attend to itself; what it gives is a value of the scope."""
        chosen = self.attending(scope)
        if not chosen:
            return False
        value, along, head = chosen
        if head in value[1] and self.random.random() < 0.5:
            return self.layers(scope, value, along, head)
        text, dims, varies = self.attended(scope, value, along, head)
        self.bind(scope, text, dims, varies)
        return True

    def attending(self, scope):
        """(a value, the dim of its positions, that of its heads' elements)"""
        found = []
        for value in scope.values:
            for along in value[1]:
                keys = self.aliases.get(along)
                if not keys or keys in value[1] or self.sizes[along] < LEAST or self.size(value[1]) * self.sizes[along] > LIMIT:
                    continue
                own = [d for d in value[1] if d not in (along, "batch")]
                new = [d for d in self.plain if d not in (*value[1], keys, "batch") and self.size(value[1]) * self.sizes[d] <= LIMIT]
                found += [(value, along, head) for head in own + new[:1]]
        return self.random.choice(found) if found else None

    def attended(self, scope, value, along, head):
        """(text, dims, dims along which it varies) of what queries make of keys and values, which are made of one value."""
        keys, shared = self.aliases[along], []
        groups = [d for d in value[1] if d not in (along, head, "batch")]
        if groups and self.random.random() < 0.5:
            shared = self.random.sample(groups, self.random.randint(1, len(groups)))
            self.seen("attention of queries that share keys")
        names = []
        for part in range(3):
            weight, name = self.parameter(scope, [head])[0], self.name("q")
            text = f"({value[0]} * {weight})" if head in value[1] else f"outer({value[0]}, {weight})"
            if part > 0:
                text = (f"mean[{', '.join(shared)}]({text})" if shared else text) + f"[{along} as {keys}]"
            scope.line(f"{name} = {text}")
            names.append(name)
        keep, sees = self.mask_of_positions(along, keys)
        score = f"dot[{head}]({names[0]}, {names[1]}) * 0.7"
        self.seen("attention")
        self.attentions.append((along, keys))
        text = f"dot[{keys}](softmax[{keys}]({f'mask({score}, {keep})' if keep else score}), {names[2]})"
        return text, value[1] + (() if head in value[1] else (head,)), (value[2] | {head}) - set(shared) if sees else frozenset()

    def mask_of_positions(self, along, keys):
        """(a mask or none, whether each query sees a key)"""
        query, key, far = f"position[{along}]", f"position[{keys}]", self.random.randint(1, self.sizes[along] - 1)
        kinds = {"window": [f"{query} - {far} <= {key} and {key} - {far} <= {query}", f"{key} < {query} + {far + 1} and {query} < {key} + {far + 1}"],
                 "causal window": [f"{query} >= {key} and {query} - {far} <= {key}", f"{query} < {key} + {far + 1} and {key} <= {query}"],
                 "causal": [f"{query} >= {key}", f"{key} <= {query}", f"not ({key} > {query})"],
                 "band beside the diagonal": [f"{query} > {key}", f"{query} < {key}", f"{query} > {key} and {query} - {far} <= {key}", f"{key} + 1 <= {query} and {query} <= {key} + {far}"]}
        kind = self.random.choice(["", "causal", *kinds])
        if not kind:
            return "", True
        self.seen("causal attention" if kind == "causal" else f"attention in a {kind}")
        return self.random.choice(kinds[kind]), kind != "band beside the diagonal"

    def layers(self, scope, value, along, head):
        """A loop of layers, each with weights of its own."""
        loops = [d for d in self.loops if d not in scope.turns]
        if not loops:
            return False
        dim, name = self.random.choice(loops), self.name("h")
        scope.loops_made.add(dim)
        scope.line(f"{name} = {value[0]} * 0.7")
        inside = scope.body(dim)
        text, dims, varies = self.attended(inside, (name, value[1], value[2]), along, head)
        inside.line(f"{name} = {name} + tanh({text}) * 0.5")
        scope.line(f"repeat {dim} {{")
        scope.lines += inside.lines
        scope.line("}")
        scope.values.append((name, dims, frozenset(varies) & frozenset(dims)))
        self.known(scope, name, dims)
        self.seen("attention in layers")
        return True
