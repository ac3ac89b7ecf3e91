"""Operators with operands, run on the CPU and on the device."""

import torch
import torch.nn.functional as F

CASES: list = []


def case(name, function, *operands, fallback=False, scale=1.0):
    """`scale` widens the tolerance of sums of many products; `fallback` says that the CPU does it."""
    CASES.append((name, function, operands, fallback, scale))


def _flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in _flat(v)]
    return [torch.tensor(value)]


def _copied(value, device):
    return value.clone().to(device) if isinstance(value, torch.Tensor) else value


def compare(function, operands, tolerance):
    """The first difference between CPU and device, or None."""
    want = _flat(function(*[_copied(o, "cpu") for o in operands]))
    got = _flat(function(*[_copied(o, "spyre") for o in operands]))
    assert len(want) == len(got), "another number of results"
    for i, (w, g) in enumerate(zip(want, got)):
        assert (w.dtype, w.shape) == (g.dtype, g.shape), f"result {i}: {w.dtype}{list(w.shape)} and {g.dtype}{list(g.shape)}"
        g = g.cpu()
        if w.dtype.is_floating_point:
            near = torch.isclose(g.float(), w.float(), rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            near = w == g
        if not near.all():
            at = tuple(near.logical_not().nonzero()[0].tolist())
            return f"result {i} at {at}: {w[at].item()} on the CPU, {g[at].item()} on the device"
    return None


torch.manual_seed(0)
x, y = torch.randn(3, 70), torch.randn(3, 70)
p = torch.rand(3, 70) + 0.25
i, j = torch.randint(-5, 6, (3, 70)), torch.randint(1, 6, (3, 70))
b = torch.rand(3, 70) > 0.5
h = torch.randn(2, 3, 4, 5)
distinct = torch.randperm(210).reshape(3, 70).float()

for n in "abs neg square sign sgn exp exp2 expm1 sin cos atan sinh cosh tanh asinh erf erfc floor ceil round trunc sigmoid isnan isinf isfinite relu logical_not".split():
    # Steps must not fall between a number and what it rounds to.
    case(n, getattr(torch, n), (x * 8).round() / 8 + 1 / 16 if n in ("floor", "ceil", "round", "trunc") else x)
for n in "log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma".split():
    case(n, getattr(torch, n), p)
for n in "acos asin atanh erfinv".split():
    case(n, getattr(torch, n), p * 0.7)
case("acosh", torch.acosh, p + 1)
for n in "abs neg sign square exp sqrt sigmoid bitwise_not logical_not".split():
    case(n + " of integers", getattr(torch, n), j)
for n in "gelu silu softplus mish elu selu celu leaky_relu hardswish hardsigmoid hardtanh relu6 logsigmoid tanhshrink softsign".split():
    case(n, getattr(F, n), x)
case("gelu tanh", lambda t: F.gelu(t, approximate="tanh"), x)
case("glu", F.glu, torch.randn(4, 8))
for n in "add sub mul div atan2 maximum minimum copysign eq ne lt le gt ge logical_and logical_or logical_xor".split():
    f = getattr(torch, n)
    case(n, f, x, p + 0.5)
    case(n + " of integers", f, i, j)
    case(n + " broadcast", f, x, p[:1] + 0.5)
    case(n + " of float and integers", f, x, j)
for n in "remainder fmod floor_divide".split():
    case(n + " of integers", getattr(torch, n), i, j)
    case(n + " by a number", getattr(torch, n), i, 3)
for n in "add sub mul div eq ne lt le gt ge".split():
    f = getattr(torch, n)
    case(n + " a number", f, x, 2.5)
    case(n + " integers and a number", f, i, 2)
    case(n + " integers and a fraction", f, i, 2.5)
    case(n + " halves and a number", f, x.half(), 2.5)
for n in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split():
    case(n, getattr(torch, n), j, j)
    case(n + " a number", getattr(torch, n), j, 2)
case("and of truths", lambda a, c: a & c | ~a, b, b.roll(1))
case("hypot", torch.hypot, x, y)
case("logaddexp", torch.logaddexp, x, y)
case("pow", torch.pow, p, y)
for exponent in (2, 3, 0.5, -1):
    case(f"power {exponent}", lambda t, e=exponent: t**e, p)
case("power of integers", lambda t: t**2, i)
case("number to a power", lambda t: 2**t, x)
case("number minus", lambda t: 1 - t, x)
case("number by", lambda t: 1 / t, p)
case("scaled sum", lambda a, c: torch.add(a, c, alpha=2) - torch.sub(c, a, alpha=3), x, y)
case("floor division", lambda a, c: torch.div(a, c, rounding_mode="floor"), i, j)
case("truncated division", lambda a: torch.div(a, 3, rounding_mode="trunc"), i)
case("where", torch.where, b, x, y)
case("where a number", lambda c, a: torch.where(c, a, 0.0), b, x)
case("where of integers", lambda c, a: torch.where(c, a, -1), b, i)
case("masked_fill", lambda a, m: a.masked_fill(m, -1e4), x, b)
case("masked softmax", lambda a, m: a.masked_fill(m, float("-inf")).softmax(-1), x, b & (torch.arange(70) > 0))
case("masked_fill by a tensor", lambda a, m: a.masked_fill(m, torch.tensor(3.0)), x, b)
case("clamp", lambda a: a.clamp(-0.5, 0.5), x)
case("clamp below", lambda a: a.clamp(min=0), x)
case("clamp integers", lambda a: a.clamp(-1, 2), i)
case("clamp by tensors", lambda a, c: a.clamp(c - 1, c + 1), x, y)
case("clamp by a tensor", lambda a, c: a.clamp(min=c), x, y)
case("addcmul", lambda a, c, d: torch.addcmul(a, c, d, value=0.5), x, y, p)
case("addcdiv", torch.addcdiv, x, y, p)
case("lerp", lambda a, c: torch.lerp(a, c, 0.3), x, y)
case("lerp by a tensor", torch.lerp, x, y, p)
for n in "sum mean amax amin prod any all var std logsumexp".split():
    t = {"prod": p[:, :8], "any": b, "all": b}.get(n, x)
    for d in (0, -1):
        case(f"{n} along {d}", lambda a, n=n, d=d: getattr(torch, n)(a, dim=d), t)
        case(f"{n} along {d}, kept", lambda a, n=n, d=d: getattr(torch, n)(a, dim=d, keepdim=True), t)
    if n != "logsumexp":
        case(n, getattr(torch, n), t)
case("sum of integers", lambda a: (a.sum(), a.sum(-1)), i)
case("sum of truths", lambda a: (a.sum(), a.sum(0)), b)
case("sums of a dtype", lambda a, c: (a.sum(0, dtype=torch.int32), a.sum(dtype=torch.int8), a.cumsum(0, dtype=torch.int32), c.prod(0, dtype=torch.bool), c.to(torch.int8).cumsum(0, dtype=torch.int8)), i, b)
case("sum as float", lambda a: a.sum(dtype=torch.float32), i)
case("sum along two", lambda a: (a.sum((0, 2)), a.mean((1, 3), True), a.sum([])), h)
case("max with indices", lambda a: (torch.max(a, 1), torch.min(a, 0, keepdim=True), a.max(), a.min()), distinct)
case("argmax", lambda a: (a.argmax(), a.argmax(-1), a.argmin(0, keepdim=True)), distinct)
case("aminmax", lambda a: tuple(torch.aminmax(a)) + tuple(torch.aminmax(a, dim=1)), x)
case("count_nonzero", torch.count_nonzero, i)
case("nansum", torch.nansum, x)
case("var_mean", lambda a: torch.var_mean(a, -1), x)
case("norms", lambda a: (a.norm(), a.norm(dim=-1), torch.linalg.vector_norm(a, 1, dim=0)), x, scale=5)
case("normalize", lambda a: F.normalize(a, dim=-1), x)
case("dot", torch.dot, x[0], y[0], scale=5)
case("mm", torch.mm, x, y.t().contiguous(), scale=5)
case("mm with a transpose", lambda a, c: a @ c.t(), x, y, scale=5)
case("bmm", torch.bmm, h[0], h[1].transpose(1, 2).contiguous(), scale=5)
case("mv", torch.mv, x, y[0], scale=5)
case("addmm", lambda c, a, d: torch.addmm(c, a, d, beta=0.5, alpha=2), torch.randn(3, 3), x, y.t().contiguous(), scale=9)
case("addmv", torch.addmv, torch.randn(3), x, y[0], scale=5)
case("baddbmm", torch.baddbmm, torch.randn(3, 4, 4), h[0], h[1].transpose(1, 2).contiguous(), scale=5)
case("matmul of four dimensions", torch.matmul, h, h.transpose(-1, -2), scale=5)
case("matmul broadcast", torch.matmul, h, torch.randn(5, 6), scale=5)
case("matmul by a vector", torch.matmul, h, torch.randn(5), scale=5)
case("einsum", lambda a, c: torch.einsum("bhid,bhjd->bhij", a, c), h, h, scale=5)
case("outer", torch.outer, x[0], y[0])
case("linear", F.linear, x, torch.randn(9, 70), torch.randn(9), scale=9)
case("linear of four dimensions", F.linear, h, torch.randn(9, 5), scale=5)
for d in (0, -1):
    case(f"softmax along {d}", lambda a, d=d: a.softmax(d), x)
    case(f"log_softmax along {d}", lambda a, d=d: a.log_softmax(d), x)
case("softmax of halves as float", lambda a: F.softmax(a, -1, dtype=torch.float32), x.half())
case("cumsum", lambda a: a.cumsum(1), x, scale=4)
case("cumsum of integers", lambda a: a.cumsum(0), i)
case("cumsum of truths", lambda a: a.cumsum(-1), b)
case("cumprod", lambda a: a.cumprod(0), x)
case("cummax", lambda a: (a.cummax(1)[0], a.cummin(0)[0]), distinct)
case("sort", lambda a: (a.sort(-1), torch.sort(a, 0, descending=True), a.argsort(-1), torch.sort(a, stable=True)), distinct)
case("topk", lambda a: (a.topk(5), a.topk(2, dim=0, largest=False)), distinct)
case("kthvalue, median", lambda a: (a.kthvalue(3), a.median(), a.median(1)), distinct)
case("layer_norm", lambda a, w, c: (F.layer_norm(a, (70,), w, c), F.layer_norm(a, (70,))), x, p[0], y[0])
case("native_layer_norm", lambda a, w, c: torch.native_layer_norm(a, (70,), w, c, 1e-5), x, p[0], y[0])
case("rms_norm", lambda a, w: F.rms_norm(a, (70,), w, 1e-5), x, p[0])
image = torch.randn(2, 4, 6, 6)
four = [torch.rand(4) + 0.5 for _ in range(4)]
case("group_norm", lambda a, w, c: F.group_norm(a, 2, w, c), image, *four[:2])
case("batch_norm", lambda a, m, v, w, c: F.batch_norm(a, m, v, w, c), image, *four)
case("batch_norm in training", lambda a, m, v, w, c: (F.batch_norm(a, m, v, w, c, training=True), m, v), image, *four)
rows = torch.tensor([0, 2, 1, 1])
case("embedding", F.embedding, torch.randint(0, 3, (4, 5)), torch.randn(3, 7))
case("index_select", lambda a, k: a.index_select(1, k), x, torch.tensor([0, 5, 69]))
case("gather", lambda a, k: a.gather(1, k), x, torch.randint(0, 70, (3, 4)))
case("index rows", lambda a, k: a[k], x, rows)
case("index columns", lambda a, k: a[:, k], x, torch.tensor([0, 2, 1, -1]))
case("index pairs", lambda a, k, l: a[k, l], x, rows, torch.tensor([3, 4, 5, 60]))
case("index apart", lambda a, k, l: a[:, k, :, l], h, torch.tensor([0, 2]), torch.tensor([3, 4]))
case("index broadcast", lambda a, k, l: a[:, k, l], h, torch.tensor([0, 2]), torch.tensor([[3], [1]]))
case("index by a host tensor", lambda a: a[torch.tensor([0, 2])], x)
case("index by truths", lambda a, m: a[m], x, b)


def _put(function):
    def changed(a, *rest):
        function(a, *rest)
        return a

    return changed


def _set_row(a, k):
    a[k] = 1.0


def _set_column(a, k):
    a[:, k] = 5.0


def _set_truth(a, m):
    a[m] = 0


def _set_rows(a, k, v):
    a[k] = v


def _set_parts(a):
    a[0] = 3
    a[:, 1:3] = 4
    a[..., -1] = 5


def _set_apart(a, k, l, v):
    a[:, k, :, l] = v


case("set rows", _put(_set_row), x, torch.tensor([0, 2]))
case("set columns", _put(_set_column), x, torch.tensor([0, 2]))
case("set by truths", _put(_set_truth), x, b)
case("set rows to rows", _put(_set_rows), x, torch.tensor([0, 2]), y[:2])
case("set parts", _put(_set_parts), x)
case("set apart", _put(_set_apart), h, torch.tensor([0, 2]), torch.tensor([3, 4]), torch.randn(2, 2, 4))
case("add by index", lambda a, k, v: a.index_put_((k,), v, accumulate=True), x, torch.tensor([0, 0, 2]), y)
case("scatter", lambda a, k, v: (a.scatter(1, k, v), a.scatter(1, k, 2.0)), x, torch.arange(8).reshape(2, 4), y)
case("scatter_add", lambda a, k, v: a.scatter_add(1, k, v), x, torch.zeros(3, 4, dtype=torch.int64), y)
case("scatter_reduce", lambda a, k, v: a.scatter_reduce(1, k, v, "amax"), x, torch.zeros(3, 4, dtype=torch.int64), y)
case("index_add", lambda a, k, v: (a.index_add(0, k, v), a.index_copy(0, k, v), a.index_fill(0, k, 3.0)), x, torch.tensor([0, 2]), y[:2])
case("index_add of multiples", lambda a, k, v: (a.index_add(0, k, v, alpha=2), a.index_add(0, k, v, alpha=0)), x, torch.tensor([0, 2]), y[:2], fallback=True)
case("elements of one number", lambda a: (a.sum().index_fill(0, torch.tensor([0], device=a.device), 3.0), a[0, 0].sort(), a.square().sum()), x, scale=9)
case("numbers that wrap", lambda a: (torch.full_like(a, -9, dtype=torch.uint8), a.to(torch.uint8).fill_(-1)), i)
case("whole numbers from fractions", lambda a: (torch.arange(-0.9, 2.1, 2.0, dtype=torch.int64, device=a.device), torch.linspace(4.3, -3, 50, dtype=torch.int32, device=a.device)), x)
case("quantile", lambda a: (a.quantile(0.3, dim=1), a.nanquantile(0.5)), x, fallback=True)
case("histogram of integers", lambda a: torch.histc(a.float(), 6, 0, 5).int(), j)
case("linear by a vector", F.linear, x, y[0], scale=9)
case("rare functions", lambda a, c: (F.prelu(a, c[0, :1]), F.softshrink(a), F.hardshrink(a), a.nan_to_num(), torch.xlogy(c, c), torch.sinc(a), torch.logit(c / 2), torch.std_mean(a, 1), torch.fmax(a, c), a.isneginf(), a.flatten().take(torch.tensor([0, 5], device=a.device))), x, p, scale=2)
case("borders that cut", lambda a: (F.pad(a[None], (-1, 2), mode="replicate"), F.pad(a[None], (1, -2), mode="reflect")), x, fallback=True)
case("unfold and fold", lambda a: (F.unfold(a, 3), F.fold(F.unfold(a, 2), (9, 9), 2)), torch.randn(2, 3, 9, 9), scale=2)
case("cells", lambda a, h0, w, v: (*torch.lstm_cell(a, (h0, h0), w, v), torch.gru_cell(a, h0, w[:12], v[:12])), torch.randn(3, 5), torch.randn(3, 4), torch.randn(16, 5), torch.randn(16, 4), scale=2)
case("cat", lambda a, c: (torch.cat([a, c]), torch.cat([a, c[:, :3]], 1), torch.stack([a, c], -1)), x, y)
case("cat with nothing", lambda a, c: torch.cat([torch.empty(0, device=a.device), a, c]), x, y)
case("pad", lambda a: (F.pad(a, (1, 2, 3, 0), value=1.5), F.pad(a[None], (1, 2), mode="reflect")), x)
case("flip and roll", lambda a: (a.flip(0, 1), a.roll((1, 3), (0, 1)), a.roll(1)), x)
case("repeat", lambda a: (a.repeat(2, 2), a.tile(2, 2), a.repeat_interleave(2, dim=0)), x)
case("slice_scatter", lambda a, c: torch.slice_scatter(a, c, 1, 2, 5), x, y[:, :3])
case("triangles", lambda a: (a.tril(), a.triu(1), (a > 0).tril()), x)
case("parts", lambda a: (a.chunk(2, -1), a.split([20, 50], 1), a.unbind(0)), x)
c9 = torch.randn(2, 3, 9, 9)
case("conv2d", lambda a, w, v: F.conv2d(a, w, v, padding=1), c9, torch.randn(4, 3, 3, 3), torch.randn(4), scale=5)
case("conv2d with a stride", lambda a, w: F.conv2d(a, w, None, stride=2), c9, torch.randn(4, 3, 3, 3), scale=5)
case("conv2d in groups", lambda a, w: F.conv2d(a, w, None, groups=3), c9, torch.randn(6, 1, 3, 3), scale=5)
case("conv1d", F.conv1d, c9[:, :, 0], torch.randn(4, 3, 3), torch.randn(4), scale=5)
case("pools", lambda a: (F.max_pool2d(a, 2), F.max_pool2d(a, 3, 2, 1), F.avg_pool2d(a, 2), F.adaptive_avg_pool2d(a, (1, 1)), F.adaptive_avg_pool2d(a, 3)), c9)
q = torch.randn(2, 4, 6, 16)
case("attention", lambda a: F.scaled_dot_product_attention(a, a, a), q)
case("causal attention", lambda a: F.scaled_dot_product_attention(a, a, a, is_causal=True), q)
case("masked attention", lambda a, m: F.scaled_dot_product_attention(a, a, a, attn_mask=m), q, (torch.rand(6, 6) > 0.3) | torch.eye(6, dtype=torch.bool))
case("grouped attention", lambda a, k: F.scaled_dot_product_attention(a, k, k, enable_gqa=True), q, torch.randn(2, 2, 6, 16))
case(
    "views",
    lambda a: (a.view(5, -1), a.transpose(0, 1), a[1:3, :, ::2], a.permute(2, 0, 1).unsqueeze(0).expand(3, -1, -1, -1), a.reshape(20, 6), a[..., None, :], a.flatten(), a.unfold(2, 2, 1), a.diagonal(), a.movedim(0, -1), a.squeeze(), a.unflatten(2, (2, 3))),
    torch.randn(5, 4, 6),
)
case("arithmetic on views", lambda a: (a.t() + 1, a[:, ::2] * 2, a[1:].exp(), a.t().softmax(0), a[:, 5:50].sum(-1), a.t() @ a), x, scale=5)
case("in place", lambda a: a.relu_().add_(1).mul_(2).clamp_(max=3), x)
case("in place on a view", _put(lambda a: (a[:, 2:9].mul_(3), a[1].zero_(), a.t()[5].fill_(2))), x)
# Views that begin with a stick and end inside one: what follows in that stick is not theirs.
case("in place on the beginning of rows", _put(lambda a: (a[:, :2].add_(1), a[:, :66].neg_(), a[:2, :5].mul_(a[1:, :5]))), x)
case("in place on a part of a view", _put(lambda a: (a.view(3, 35, 2)[:, 0].add_(1), a.view(-1)[:2].neg_(), a.t()[:3].exp_(), a.unfold(1, 2, 2)[:, 0].sub_(2))), x)
case("out into a part", lambda a, c: (torch.add(a[:, :3], 1, out=c[:, :3]), torch.mm(a, c.t().contiguous(), out=c[:, :3]), c), x, y, scale=5)
case("in place by index on a part", _put(lambda a: (a[:, :4].cumsum_(0), a[:, :4].masked_fill_(a[:, :4] > 0, 2.0), a[:2, :2].tril_())), x)
case("windows that cross rows", lambda a: (a.as_strided((3, 4), (69, 1)), a.as_strided((3, 64), (64, 1)) + 1, a.as_strided((7, 3), (1, 67), 3)), x)
case("conversions", lambda a: (a.half(), a.to(torch.bfloat16), a.int(), a.long(), a.bool(), a.to(torch.int8)), (x * 3).trunc())
case("conversions of integers", lambda a: (a.float(), a.half(), a.bool(), a.int(), a.to(torch.int8)), i)
case("conversions of truths", lambda a: (a.float(), a.long(), a.int()), b)
for dt in (torch.int8, torch.int16, torch.int32, torch.uint8, torch.bfloat16, torch.float16):
    case(f"arithmetic of {dt}", lambda a, c: (a + c, a * 2, a > c, a.sum(), a.max(), a.reshape(-1), a[1], a.float()), j.to(dt), i.abs().to(dt), scale=2)
case("losses", lambda a, t: (F.mse_loss(a, t), F.binary_cross_entropy_with_logits(a, (t > 0).float())), x, y)
case("cross entropy", F.cross_entropy, x, torch.tensor([1, 2, 3]))
case("other losses", lambda a, t: (F.smooth_l1_loss(a, t), F.huber_loss(a, t), F.l1_loss(a, t), F.kl_div(a.log_softmax(-1), t.softmax(-1), reduction="batchmean")), x, y, scale=2)
case("cross entropy with weights", lambda a, t, w: F.cross_entropy(a, t, w, ignore_index=2, label_smoothing=0.1), x, torch.tensor([1, 2, 3]), p[0])
case("one_hot, isin", lambda t, u: (F.one_hot(t, 5), torch.isin(t, u)), torch.randint(0, 3, (4, 5)), torch.tensor([0, 2]))
case("numbers out", lambda a: (a.sum().item(), a[0, 0].item(), a.tolist(), int(a[1, 1]), bool(a[0, 0] == a[0, 0])), i)
case("nonzero, unique", lambda a: (a.nonzero(), a.unique()), i, fallback=True)
case("interpolate", lambda a: (F.interpolate(a, scale_factor=2), F.interpolate(a, size=(5, 7), mode="bilinear")), c9)
case("interpolate by cubes", lambda a: F.interpolate(a, scale_factor=2, mode="bicubic"), c9, fallback=True, scale=2)
