"""States of a random model, what is read of them before and after their step, and metrics."""


class States:
    def state(self, scope):
        """What the next step reads of this one; in a loop every turn has its own."""
        a, b = self.pick(scope), self.pick(scope)
        name, dims = self.name("s"), tuple(d for d in a[1] if d != "batch")
        scope.line(f"state {name} : real{self.brackets(dims)} = {self.random.choice(['zeros', 'ones', '0.5'])}")
        self.known(scope, name, dims)
        if scope.turns:
            self.seen("a state in a loop")
        kind = self.random.choice([self.plain_state, self.running_state, self.named_step])
        reader = f"{a[0]} + tanh({name}) * 0.3"
        early = self.random.random() < 0.5
        if early:
            b = self.bind(scope, reader, a[1], a[2])
        if not scope.turns and self.random.random() < 0.4:
            self.seen("a metric of a state before its step")
            self.metric(scope, self.mean_of(f"{name} * 0.5", dims))
        return kind(scope, name, dims, a, b) if early else (kind(scope, name, dims, a, b), self.bind(scope, reader, a[1], a[2]))[1]

    def plain_state(self, scope, name, dims, a, b):
        scope.line(f"{name} <- 0.6 * {name} + 0.4 * {self.mean_over(scope, b, dims)}")
        return self.read_after(scope, name, dims)

    def running_state(self, scope, name, dims, a, b):
        """A running mean, which evaluations read in place of that of their samples."""
        if "batch" not in a[1] or self.apart:
            return self.plain_state(scope, name, dims, a, b)
        self.seen("a state with running values")
        now = self.name("v")
        scope.line(f"{now} = mean[batch]({a[0]})")
        scope.line(f"{name} <- 0.9 * {name} + 0.1 * {now}")
        self.bind(scope, f"{a[0]} - where(training, {now}, {name}) * 0.5", a[1], a[2])
        return self.read_after(scope, name, dims)

    def named_step(self, scope, name, dims, a, b):
        """The next value has a name, and its difference from this one another: metrics take it by name and written out."""
        step, change = self.name("v"), self.name("v")
        scope.line(f"{step} = 0.5 * {name} + {self.mean_over(scope, b, dims)}")
        scope.line(f"{change} = {step} - {name}")
        scope.line(f"{name} <- {step}")
        if not scope.turns:
            self.seen("a metric of a state, named and written out")
            for text in self.random.sample([change, f"{step} - {name}"], self.random.randint(1, 2)):
                self.metric(scope, self.mean_of(f"abs({text})", dims))
        return step, dims, frozenset()

    def read_after(self, scope, name, dims):
        """A name for what is read of the state where its `<-` stands before, in a metric of its own and beside others."""
        if scope.turns or self.random.random() < 0.4:
            return None
        read = self.name("v")
        scope.line(f"{read} = {name} * 0.7")
        if self.random.random() < 0.5:
            self.seen("a metric of a state after its step")
            self.metric(scope, self.random.choice([self.mean_of(name, dims), self.mean_of(f"{read} + {name} * 0.2", dims), self.mean_of(f"{name} * 0.7", dims)]))
        else:
            self.metric(scope, self.mean_of(read, dims))
        return read, dims, frozenset()

    def mean_over(self, scope, value, dims):
        """`value` as a text whose dims lie within `dims`: outside of loops the samples' mean even where the rest of the model keeps samples apart."""
        if scope.turns:
            return self.fit(scope, value, dims)
        extra = [d for d in value[1] if d not in dims]
        return f"mean[{', '.join(extra)}]({value[0]})" if extra else value[0]

    def mean_of(self, text, dims):
        return f"mean[{', '.join(dims)}]({text})" if dims else text

    def metric(self, scope, text):
        scope.line(f"metric {self.name('m')} = " + self.random.choice(["exp(tanh({}))", "({}) * 2", "{}"]).format(text))

    def last_metrics(self, scope):
        for _ in range(self.random.randint(0, 2)):
            name, dims, _ = self.pick(scope)
            self.metric(scope, self.mean_of(name, dims))
