"""Random programs, the same on the CPU and on the card.

A program is Python source that reads the name `device`; a failure prints it, to be pasted as it is.
`Eager(seed)` is a row of statements over a pool of tensors: views, writes through them, arithmetic.
`Compiled(seed)` is a function, compiled for fixed and for changing sizes; its results may be views of
its arguments, or share memory with each other.
"""

from __future__ import annotations

import random
import re

import torch
from database import STRIDES_CHECKED, difference, message

_HEAD = "import torch\ntorch.manual_seed({seed})\n"


def _aliases(values) -> list:
    """Which of the tensors lie in one storage."""
    return [(i, j) for i in range(len(values)) for j in range(i) if torch._C._is_alias_of(values[i], values[j])]


def _overlaps(x) -> bool:
    """Whether several of its elements are one place in memory."""
    places = torch.zeros(x.shape, dtype=torch.int64)
    for d, (size, stride) in enumerate(zip(x.shape, x.stride())):
        places += (torch.arange(size) * stride).reshape([-1 if k == d else 1 for k in range(x.dim())])
    return places.unique().numel() < x.numel()


class _Writer:
    """Writes statements that the CPU accepts."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed = seed

    def pick(self, things):
        return self.random.choice(list(things))

    def axis(self, t):
        return self.random.randrange(-t.dim(), t.dim())

    # A view of `x`, a tensor called `n`; None where it has none of that kind.

    def view(self, n, x, fixed=True):
        r, d = self.random, x.dim()
        kinds = ["unsqueeze", "detach"]
        if d:
            kinds += ["transpose", "permute", "movedim", "slice", "slice", "select", "narrow", "chunk", "split", "squeeze", "unfold", "expand", "flip"]
            if fixed:
                kinds += ["view", "as_strided", "reshape", "flatten", "contiguous"]
        if d > 1:
            kinds += ["diagonal", "mT"]
        kind = r.choice(kinds)
        if kind == "unsqueeze":
            return f"{n}.unsqueeze({r.randint(-d - 1, d)})" if d < 5 else None
        if kind in ("detach", "contiguous"):
            return f"{n}.{kind}()"
        a = self.axis(x)
        size = x.shape[a]
        if kind == "slice":
            places = [":"] * d
            low = r.randint(0, max(size - 1, 0))
            places[a] = f"{low or ''}:{r.choice(['', size, -1, min(low + 2, size)])}{r.choice(['', '', ':2', ':3'])}"
            return f"{n}[{', '.join(places)}]"
        if kind == "narrow":
            low = r.randint(0, size)
            return f"{n}.narrow({a}, {low}, {r.randint(0, size - low)})" if r.random() < 0.1 else f"{n}.narrow({a}, {low}, {size - low})"
        if kind == "expand":
            return f"{n}.expand(2, *{n}.shape)" if r.random() < 0.5 and d < 5 else f"{n}.unsqueeze(0).expand(3, {', '.join(['-1'] * d)})" if d < 5 else None
        if kind == "as_strided":
            room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
            shape = (r.randint(1, 3), r.randint(1, 4))
            strides = (r.randint(0, 4), r.randint(1, 3))
            if sum((s - 1) * t for s, t in zip(shape, strides)) >= room:
                return None
            return f"{n}.as_strided({shape}, {strides}, {n}.storage_offset())"
        if kind == "diagonal":
            two = r.sample(range(d), 2)
            return f"{n}.diagonal({r.randint(-1, 1)}, {two[0]}, {two[1]})"
        # Functions, so that no other kind draws random numbers.
        single = {
            "transpose": lambda: f"{n}.transpose({a}, {self.axis(x)})",
            "permute": lambda: f"{n}.permute({', '.join(map(str, r.sample(range(d), d)))})",
            "movedim": lambda: f"{n}.movedim({a}, {self.axis(x)})",
            "select": lambda: f"{n}.select({a}, {r.randrange(size)})" if size else None,
            "chunk": lambda: f"{n}.chunk(2, {a})[{r.choice([0, -1])}]",
            "split": lambda: f"{n}.split({max(size // 2, 1)}, {a})[0]" if size else None,
            "squeeze": lambda: f"{n}.squeeze({r.choice(['', a])})",
            "unfold": lambda: f"{n}.unfold({a}, {r.randint(1, size)}, {r.randint(1, 2)})" if size and d < 5 else None,
            "flip": lambda: f"{n}.flip({a})",
            "view": lambda: r.choice([f"{n}.view(-1)", f"{n}.view({', '.join(map(str, x.shape))}, 1)", f"{n}.unflatten({a}, (1, {size}))", f"{n}.view(2, -1)"]),
            "reshape": lambda: f"{n}.reshape(-1)",
            "flatten": lambda: f"{n}.flatten()",
            "mT": lambda: f"{n}.mT",
        }
        return single[kind]()

    def number(self, x):
        return self.random.choice([2, -1, 3] if not x.dtype.is_floating_point else [0.5, 2, -1.5])

    def write(self, n, x, others):
        """A statement that writes into `x`."""
        r, d = self.random, x.dim()
        kind = r.choice("add_ mul_ zero_ fill_ neg_ clamp_ copy_ addother masked_fill_ index_put_ set setmask setlist relu_ sub_ accumulate out turned math triangle fill_rows copy_rows add_rows scatter_ cumsum_ addcmul_ lerp_ swap".split())
        if _overlaps(x) and self.grad:
            return None
        if _overlaps(x):
            # Only a write of one number to all elements has a meaning then.
            kind = r.choice(["zero_", "fill_"])
        value = self.number(x)
        if kind in ("zero_", "neg_", "relu_"):
            return f"{n}.{kind}()"
        if kind in ("add_", "mul_", "fill_", "sub_"):
            return f"{n}.{kind}({value})"
        if kind == "clamp_":
            return f"{n}.clamp_(-2, 2)"
        if kind in ("copy_", "addother"):
            m = r.choice(others)
            # From a copy: what a write that reads its own memory gives is not said.
            return f"{n}.copy_({m}.clone())" if kind == "copy_" else f"{n}.add_({m}.clone())"
        if kind == "out":
            return r.choice([f"torch.add({n}.clone(), 1, out={n})", f"torch.mul({n}.clone(), {value}, out={n})", f"torch.abs({n}.clone(), out={n})"])
        if kind == "turned":
            # The tensor itself becomes a view of what it was.
            a, b = (self.axis(x), self.axis(x)) if d else (0, 0)
            return r.choice([f"{n}.transpose_({a}, {b})", f"{n}.squeeze_()", f"{n}.unsqueeze_(0)", f"{n}.t_()"]) if d < 4 else None
        if kind == "math":
            if not x.dtype.is_floating_point:
                return r.choice([f"{n}.remainder_(3)", f"{n}.bitwise_and_(3)", f"{n}.floor_divide_(2)", f"{n}.abs_()"])
            return r.choice([f"{n}.sigmoid_()", f"{n}.tanh_()", f"{n}.div_(2)", f"{n}.abs_()", f"{n}.floor_()", f"{n}.pow_(2)", f"{n}.clamp_min_(0)"])
        if kind == "addcmul_":
            return f"{n}.addcmul_({n}.clone(), {n}.clone(), value={value})" if x.dtype.is_floating_point else None
        if kind == "lerp_":
            return f"{n}.lerp_({n}.clone() * 2, 0.5)" if x.dtype.is_floating_point else None
        if kind == "triangle":
            return f"{n}.{r.choice(['tril_', 'triu_'])}({r.randint(-1, 1)})" if d > 1 else None
        if kind == "masked_fill_":
            return f"{n}.masked_fill_({n} > 0, {value})"
        if kind == "setmask":
            return f"{n}[{n} < 0] = {value}"
        if not d or not x.shape[0]:
            return None
        rows = [r.randrange(x.shape[0]) for _ in range(2)]
        if kind == "set":
            low = r.randrange(x.shape[0])
            return r.choice([f"{n}[{low}] = {value}", f"{n}[{low}:] = {value}", f"{n}[..., -1] = {value}", f"{n}[::2] = {n}[0].clone()"])
        if kind == "setlist":
            return f"{n}[torch.tensor({sorted(set(rows))}, device=device)] = {value}"
        a = self.axis(x)
        if kind in ("fill_rows", "copy_rows", "add_rows") and x.shape[a]:
            row = r.randrange(x.shape[a])
            index = f"torch.tensor([{row}], device=device)"
            part = f"{n}.narrow({a}, {x.shape[a] - 1}, 1).clone()"
            return {"fill_rows": f"{n}.index_fill_({a}, {index}, {value})", "copy_rows": f"{n}.index_copy_({a}, {index}, {part})", "add_rows": f"{n}.index_add_({a}, {index}, {part})"}[kind]
        if kind == "scatter_":
            return f"{n}.scatter_({a}, torch.zeros_like({n}, dtype=torch.int64), {value})"
        if kind == "cumsum_":
            return f"{n}.cumsum_({a})"
        if kind == "swap":
            return f"{n}[0], {n}[-1] = {n}[-1].clone(), {n}[0].clone()"
        accumulate = ", accumulate=True" if kind == "accumulate" else ""
        rows = rows if accumulate else sorted(set(rows))
        return f"{n}.index_put_((torch.tensor({rows}, device=device),), torch.tensor({value}, dtype={n}.dtype, device=device){accumulate})"

    def compute(self, n, x, others):
        r, d = self.random, x.dim()
        m = r.choice(others)
        kinds = [f"{n} + {m}", f"{n} * {self.number(x)}", f"{n} - 1", f"torch.relu({n})", f"-{n}", f"{n}.abs()", f"torch.where({n} > 0, {n}, {m})", f"{n}.clone()", f"{n}.sum()", f"torch.maximum({n}, {m})", f"{n}.float()", f"{n}.to(torch.int32)", f"({n} > 0)", f"{n}.half()", f"{n}.abs().to(torch.uint8)", f"{n}.new_ones({n}.shape)", f"torch.zeros_like({n})", f"{n}.eq({m})", f"{n}.masked_fill({n} > 1, 0)"]
        if d:
            a = self.axis(x)
            kinds += [f"{n}.sum({a})", f"{n}.sum({a}, keepdim=True)", f"{n}.amax({a})", f"{n}.cumsum({a})", f"torch.cat([{n}, {n}], {a})", f"torch.stack([{n}, {n}], {a})", f"{n}.argmax({a})", f"{n}.index_select({a}, torch.tensor([0], device=device))", f"{n}.roll(1, {a})", f"{n}.flip({a}).clone()", f"{n}.sort(dim={a}, stable=True)[0]", f"{n}.repeat_interleave(2, {a})", f"{n}.any({a})", f"{n}.cummax({a})[0]", f"torch.gather({n}, {a}, torch.zeros_like({n}, dtype=torch.int64))", f"{n}.prod({a})", f"torch.nn.functional.pad({n}, (1, 1))"]
            if x.dtype.is_floating_point:
                kinds += [f"{n}.softmax({a})", f"{n}.mean({a})", f"torch.sigmoid({n})"]
        if d > 1 and x.dtype.is_floating_point:
            kinds += [f"{n} @ {n}.mT", f"{n} @ {m}", f"({n} @ {n}.mT).tanh()"] * 2
        return r.choice(kinds)


class Eager(_Writer):
    """Three to twelve statements over a pool."""

    def __init__(self, seed):
        super().__init__(seed)
        self.lines: list[str] = []
        self.names: list[str] = []
        self.grad = self.random.random() < 0.3
        self.last = None
        # Only views of what was made contiguous have strides that are known today.
        known = set()
        for i in range(self.random.randint(1, 3)):
            shape = tuple(self.random.choice([1, 2, 3, 4, 5, 64, 70]) for _ in range(self.random.randint(1, 3)))
            shape = shape if len([s for s in shape if s > 5]) < 2 else shape[:1]
            source = self.pick(
                [f"torch.randint(-8, 9, {shape}).float() / 4"] * 4
                + [f"(torch.randint(-8, 9, {shape}) / 4).half()", f"(torch.randint(-8, 9, {shape}) / 4).bfloat16()"]
                + [f"torch.randint(-5, 6, {shape})"] * 2
                + [f"torch.randint(-5, 6, {shape}, dtype=torch.int32)", f"torch.randint(0, 6, {shape}, dtype=torch.uint8)", f"torch.randint(0, 2, {shape}).bool()"]
            )
            if self.grad:
                # Writes go into a product, as a leaf cannot be written.
                source = f"torch.randint(-8, 9, {shape}).float() / 4"
                self._try(f"x{i} = ({source}).to(device).requires_grad_()")
                self._try(f"t{i} = x{i} * 1")
            else:
                self._try(f"t{i} = ({source}).to(device)")
            known.add(f"t{i}")
        steps = self.random.randint(3, 12) + len(self.lines)
        for _ in range(80):
            if len(self.lines) >= steps:
                break
            n, new = self.pick(self.names), f"t{len(self.names)}"
            x = dict(zip(self.names, self.run("cpu")))[n]
            kind = self.random.choices(["view", "write", "compute"], [5, 4, 2])[0]
            sure = STRIDES_CHECKED or n in known
            if kind == "view":
                expression = self.view(n, x, sure)
                line = expression and f"{new} = {expression}"
            elif kind == "write":
                line = self.write(n, x, self.names)
            else:
                line = f"{new} = {self.compute(n, x, self.names)}"
            if line and self._try(line) and kind == "view" and sure and "flip" not in line:
                known.add(new)
        if self.grad:
            self.last = f"sum(t.float().sum() * (i + 1) for i, t in enumerate([{', '.join(self.names)}]) if t.requires_grad).backward()"
            try:
                self.run("cpu")
            except Exception:
                # A value that the gradient needs was written over.
                self.last = None

    def _try(self, line) -> bool:
        """Adds a statement that the CPU takes, and that leaves numbers so small that every format holds them."""
        new = [f"t{len(self.names)}"] if line.startswith(f"t{len(self.names)} =") else []
        self.lines.append(line)
        self.names += new
        try:
            values = self.run("cpu")
            if not any(v.numel() > 20000 or v.numel() and v.dtype != torch.bool and not v.detach().abs().max() < 1e3 for v in values):
                return True
        except Exception:
            pass
        self.lines.pop()
        del self.names[len(self.names) - len(new) :]
        return False

    def source(self) -> str:
        return _HEAD.format(seed=self.seed) + 'device = "spyre"\n' + "\n".join(self.lines + ([self.last] if self.last else [])) + "\n"

    def run(self, device) -> list:
        scope = {"torch": torch, "device": device}
        torch.manual_seed(self.seed)
        for line in self.lines + ([self.last] if self.last else []):
            exec(line, scope)
        # Gradients of leaves come last; what no result depends on has none.
        leaves = [line.split(" ")[0] for line in self.lines if line.startswith("x")] if self.last else []
        return [scope[n] for n in self.names] + [g for g in (scope[n].grad for n in leaves) if g is not None]

    def check(self) -> tuple:
        """(outcome, reason)."""
        want = self.run("cpu")
        torch.spyre.reset_fallbacks()
        try:
            got = self.run("spyre")
        except Exception as error:
            return "refused", message(error)
        ran = "cpu" if torch.spyre.fallbacks() else "native"
        loose = any(v.dtype in (torch.float16, torch.bfloat16) for v in want)
        if len(want) != len(got):
            return "wrong", "other leaves have a gradient"
        for n, w, g in zip(self.names + ["a gradient"] * len(want), want, got):
            found = difference(w, g, loose=loose)
            if found:
                return "wrong", f"{n}: {found}"
        want, got = want[: len(self.names)], got[: len(self.names)]
        if _aliases(want) != _aliases(got):
            return "wrong", "other tensors share memory: " + _pairs(want, got, self.names)
        return ran, ""


def _pairs(want, got, names) -> str:
    w, g = set(_aliases(want)), set(_aliases(got))
    parts = [f"{names[j]} and {names[i]} do" for i, j in sorted(w - g)] + [f"{names[j]} and {names[i]} do not" for i, j in sorted(g - w)]
    return ", ".join(parts[:3]) + " on the CPU"


class Compiled(_Writer):
    """A function of two or three arguments, and sizes to call it with."""

    MODES = ("static", "dynamic", "marked")

    def __init__(self, seed):
        super().__init__(seed)
        r = self.random
        self.grad = r.random() < 0.35
        self.names = ["a", "b", "c"][: r.randint(1, 3)]
        inner = r.choice([3, 4, 64])
        self.shapes = {n: r.choice([("n", inner), ("n", inner), (2, "n", inner), ("n",), (inner, inner)]) for n in self.names}
        self.kinds = {n: "float" if self.grad else r.choice(["float", "float", "int"]) for n in self.names}
        self.sizes = r.sample([2, 3, 4, 5, 6, 8], r.choice([2, 3]))
        self.body: list[str] = []
        self.results: list[str] = []
        names = list(self.names)
        wanted = r.randint(1, 6)
        for _ in range(60):
            if len(self.body) >= wanted:
                break
            n, new = self.pick(names), f"v{len(names)}"
            x = self._scope()[n]
            kind = r.choices(["view", "write", "compute", "break"], [5, 2.5, 3, 0.4])[0]
            if kind == "break":
                line = "torch._dynamo.graph_break()"
            elif kind == "view":
                expression = self._sized(n, x)
                line = expression and f"{new} = {expression}"
            elif kind == "write":
                line = self.write(n, x, names)
                if self.grad and line and line.split(".")[0].split("[")[0] in self.names:
                    line = None
            else:
                line = f"{new} = {self.compute(n, x, names)}"
            if not line or "argmax" in line and self.grad:
                continue
            self.body.append(line)
            self.results = [n for n in names]
            try:
                for size in self.sizes:
                    values = self.function("cpu")(*self.arguments(size, "cpu"))
                    if any(v.numel() > 5000 or v.numel() and v.dtype != torch.bool and not v.abs().max() < 1e4 for v in values):
                        raise OverflowError
                if line.startswith(new):
                    names.append(new)
            except Exception:
                self.body.pop()
        self.results = r.choices(names, k=r.randint(1, 4))

    def _scope(self):
        self.results = list(dict.fromkeys(self.names + [line.split(" ")[0] for line in self.body if re.match(r"v\d+ = ", line)]))
        return dict(zip(self.results, self.function("cpu")(*self.arguments(max(self.sizes), "cpu"))))

    def _sized(self, n, x):
        """A view that is written without sizes that change."""
        expression = self.view(n, x, fixed=False)
        return expression if expression and "flip" not in expression else None

    def text(self) -> str:
        result = ", ".join(self.results)
        return "\n    ".join([f"def f({', '.join(self.names)}):", *self.body, f"return ({result},)"])

    def function(self, device):
        scope = {"torch": torch, "device": device}
        exec(compile(self.text(), f"<program {self.seed}>", "exec"), scope)
        return scope["f"]

    def arguments(self, size, device) -> list:
        torch.manual_seed(self.seed + size)
        out = []
        for n in self.names:
            shape = [size if s == "n" else s for s in self.shapes[n]]
            t = torch.randint(-5, 6, shape)
            t = (t.float() / 2 if self.kinds[n] == "float" else t).to(device)
            out.append(t.requires_grad_(self.grad and self.kinds[n] == "float"))
        return out

    def _observed(self, function, size, device, mark=False):
        """All that a caller can see of one call, one thing after the other."""
        arguments = self.arguments(size, device)
        if mark:
            for n, argument in zip(self.names, arguments):
                for d, s in enumerate(self.shapes[n]):
                    if s == "n":
                        torch._dynamo.mark_dynamic(argument, d)
        results = list(function(*arguments))
        seen = [("results", [t.detach().clone() for t in results]), ("arguments after the call", [t.detach().clone() for t in arguments])]
        everything = arguments + results
        shared = _aliases(everything)
        if self.grad:
            roots = [t for t in results if t.requires_grad]
            if roots:
                total = sum((t * (i + 1)).sum() for i, t in enumerate(roots))
                total.backward()
                seen.append(("gradients", [a.grad if a.grad is not None else torch.zeros_like(a) for a in arguments]))
        with torch.no_grad():
            for i, t in enumerate(results):
                written = t.detach()
                # What a write into several elements in one place gives is not said.
                if _overlaps(written) or written.dtype == torch.bool:
                    continue
                try:
                    written.add_(i + 1)
                except RuntimeError as error:
                    seen.append((f"writing into result {i}: {type(error).__name__}", []))
                    continue
                seen.append((f"all after writing into result {i}", [v.detach().clone() for v in everything]))
        return seen, shared

    def check(self, mode="static") -> tuple:
        """(outcome, reason)."""
        outcome = self._compare(mode, "spyre", "spyre")
        # PyTorch's own compiler differs from its own eager mode, seldom: nothing to find there.
        if outcome[0] in ("wrong", "refused") and self._compare(mode, "cpu", "aot_eager")[0] in ("wrong", "refused"):
            return "skip", ""
        return outcome

    def _compare(self, mode, device, backend) -> tuple:
        plain = self.function("cpu")
        torch._dynamo.reset()
        torch.spyre.reset_fallbacks()
        compiled = torch.compile(self.function(device), backend=backend, dynamic=True if mode == "dynamic" else None)
        for size in self.sizes:
            want, shared = self._observed(plain, size, "cpu")
            try:
                got, also = self._observed(compiled, size, device, mark=mode == "marked")
            except Exception as error:
                if "ConstraintViolation" in type(error).__name__:
                    return "skip", ""
                return "refused", f"n = {size}: {message(error)}"
            for (what, w), (instead, g) in zip(want, got):
                if what != instead:
                    return "wrong", f"n = {size}: {instead}, not {what}: other results have elements that overlap"
                found = difference(w, g, on=device)
                if found:
                    return "wrong", f"n = {size}, {what}: {found}"
            if len(want) != len(got):
                return "wrong", f"n = {size}: other results can be written"
            if shared != also:
                names = self.names + [f"result {i}" for i in range(len(self.results))]
                w, g = set(shared), set(also)
                parts = [f"{names[j]} and {names[i]} share memory" for i, j in sorted(w - g)] + [f"{names[j]} and {names[i]} do not share memory" for i, j in sorted(g - w)]
                return "wrong", f"n = {size}: {', '.join(parts[:3])} on the CPU"
        return ("cpu" if torch.spyre.fallbacks() else "native"), ""

    def source(self, mode="static") -> str:
        lines = [_HEAD.format(seed=self.seed) + 'device = "spyre"', self.text(), ""]
        lines.append(f"f = torch.compile(f, backend=\"spyre\"{', dynamic=True' if mode == 'dynamic' else ''})")
        lines.append(f"for n in {self.sizes}:")
        makes = []
        for n in self.names:
            shape = ", ".join(map(str, self.shapes[n])) + ("," if len(self.shapes[n]) == 1 else "")
            half = ".float() / 2" if self.kinds[n] == "float" else ""
            makes.append(f"(torch.randint(-5, 6, ({shape})){half}).to(device){'.requires_grad_()' if self.grad else ''}")
        lines.append(f"    {', '.join(self.names)}, = {', '.join(makes)},")
        if mode == "marked":
            marks = [f"torch._dynamo.mark_dynamic({n}, {d})" for n in self.names for d, s in enumerate(self.shapes[n]) if s == "n"]
            lines.append("    " + ("; ".join(marks) or "pass"))
        lines.append(f"    print(f({', '.join(self.names)}))")
        return "\n".join(lines) + "\n"


# Walks, as those of operators: an entry is a program and what is done with it.

EAGER, COMPILED = 2000, 80


def entries() -> list:
    return [("eager", seed, "eager") for seed in range(EAGER)] + [("compiled", seed, mode) for seed in range(COMPILED) for mode in Compiled.MODES]


def program(kind, seed):
    return Eager(seed) if kind == "eager" else Compiled(seed)


def check(kind, seed, mode) -> tuple:
    """(outcome, reason, source) of one program."""
    made = program(kind, seed)
    outcome, reason = made.check() if kind == "eager" else made.check(mode)
    return outcome, reason, made.source() if kind == "eager" else made.source(mode)


def entry(kind, seed, mode) -> dict:
    outcome, reason, source = check(kind, seed, mode)
    return dict(entry=[kind, str(seed), mode], kind=outcome, reason=reason, sample=0, counts={outcome: 1}, strides=0, source=source)
