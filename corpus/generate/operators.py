"""The text of what a program may say. Which of it saves, views or writes these tables do not know: torch is asked.

A template is an expression or a statement with holes: `{0}`, `{1}` for tensors. A template that torch refuses for the
tensors at hand is simply not used there.
"""

from __future__ import annotations

UNARY = (
    "{0}.exp()",
    "{0} * 2",
    "torch.sigmoid({0})",
    "{0}.tanh()",
    "F.relu({0})",
    "{0}.sqrt()",
    "{0} / 3",
    "1 / {0}",
    "{0}.pow(2)",
    "{0} ** 3",
    "-{0}",
    "{0}.abs()",
    "{0}.log()",
    "{0}.sin()",
    "{0}.square()",
    "{0}.rsqrt()",
    "{0}.clamp(min=-1.0)",
    "{0}.softmax(-1)",
    "F.log_softmax({0}, dim=-1)",
    "F.gelu({0})",
    "F.softplus({0})",
    "F.elu({0})",
    "F.leaky_relu({0}, 0.1)",
    "F.silu({0})",
    "F.dropout({0}, 0.5)",
    "F.normalize({0}, dim=-1)",
    "F.layer_norm({0}, {0}.shape[-1:])",
    "{0}.cumsum(0)",
    "{0}.cumprod(-1)",
    "{0}.logsumexp(-1, keepdim=True)",
    "{0}.sort(dim=-1)[0]",
    "torch.where({0} > 0, {0}, 0.1 * {0})",
    "{0}.masked_fill({0} > 1, 0.0)",
    "{0}.index_select(0, torch.tensor([0, 1]))",
    "{0}[torch.tensor([1, 0])]",
    "{0}.gather(0, torch.zeros_like({0}, dtype=torch.long))",
    "{0}.repeat(2, 1)",
    "{0}.clone()",
    "{0}.contiguous()",
    "{0}.roll(1)",
    "{0}.flip(0)",
    "{0}.tril()",
    "F.pad({0}, (0, 1))",
    "F.conv1d({0}.unsqueeze(0), torch.ones({0}.shape[-2], {0}.shape[-2], 1)).squeeze(0)",
    "F.max_pool1d({0}.unsqueeze(0), 1).squeeze(0)",
    "Cube.apply({0})",
    "Squash.apply({0})",
    "torch.autograd.grad(({0} ** 3).sum(), {0}, create_graph=True)[0]",
    "torch.autograd.grad({0}.exp().sum(), [{0}], create_graph=True)[0].sum(-1)",
    "torch.vmap(torch.sin)({0})",
    "torch.func.vmap(lambda row: row * row.sum())({0})",
    "torch.func.grad(lambda t: (t ** 3).sum())({0})",
    "torch.func.jvp(torch.exp, ({0},), (torch.ones_like({0}),))[1]",
    "checkpoint(torch.sigmoid, {0}, use_reentrant=False)",
    "checkpoint(lambda t: t.exp() * t.sin(), {0}, use_reentrant=False)",
    "checkpoint(torch.tanh, {0}, use_reentrant=True)",
    "swish({0})",
    "smooth({0})",
)

BINARY = (
    "{0} * {1}",
    "{0} + {1}",
    "{0} - {1}",
    "{0} / ({1} + 5)",
    "{0} @ {1}",
    "torch.mm({0}, {1})",
    "F.linear({0}, {1})",
    "torch.maximum({0}, {1})",
    "torch.addmm({0}, {0}, {1})",
    "torch.cat([{0}, {1}])",
    "torch.stack([{0}, {1}]).sum(0)",
    "torch.lerp({0}, {1}, 0.3)",
    "torch.atan2({0}, {1})",
    "torch.addcmul({0}, {1}, {1}, value=0.5)",
    "F.mse_loss({0}, {1}, reduction='none')",
    "torch.einsum('ij,jk->ik', {0}, {1})",
    "torch.where({0} > 0, {0}, {1})",
    "F.cosine_similarity({0}, {1}, dim=-1)",
    "torch.outer({0}.flatten(), {1}.flatten())",
    "{0}.scatter_add(0, torch.zeros_like({1}, dtype=torch.long), {1})",
    "torch.hypot({0}, {1})",
    "Gate.apply({0}, {1})",
)

VIEWS = (
    "{0}.view(-1)",
    "{0}[0]",
    "{0}[:, 0]",
    "{0}[:1]",
    "{0}.t()",
    "{0}.transpose(0, -1)",
    "{0}.unsqueeze(0)",
    "{0}.squeeze(0)",
    "{0}.reshape(-1)",
    "{0}.flatten()",
    "{0}.narrow(0, 0, 1)",
    "{0}.chunk(2)[0]",
    "{0}.diagonal()",
    "{0}.view_as({0})",
    "{0}.expand(2, *{0}.shape)",
    "{0}.detach()",
    "{0}.unbind(0)[0]",
    "{0}.split(1)[0]",
)

REDUCTIONS = (
    "{0}.sum()",
    "{0}.mean()",
    "{0}.pow(2).sum()",
    "{0}.norm()",
    "{0}.std()",
    "{0}.prod()",
    "{0}.max()",
    "{0}.logsumexp(-1).mean()",
    "F.mse_loss({0}, torch.zeros_like({0}))",
    "F.smooth_l1_loss({0}, torch.ones_like({0}))",
)

# Indices and masks: a name, what makes it of a tensor `{0}`, and an expression that uses it as `{1}`.
PICKS = (
    ("idx", "torch.tensor([0, 1])", "{0}[{1}]"),
    ("idx", "torch.tensor([1, 0, 1])", "{0}.index_select(0, {1})"),
    ("idx", "torch.zeros_like({0}, dtype=torch.long)", "{0}.gather(-1, {1})"),
    ("idx", "torch.zeros_like({0}, dtype=torch.long)", "{0}.scatter(0, {1}, 0.5)"),
    ("tokens", "torch.tensor([0, 1, 1])", "F.embedding({1}, {0})"),
    ("labels", "torch.zeros({0}.shape[0], dtype=torch.long)", "F.cross_entropy({0}, {1})"),
    ("mask", "{0} > 0", "{0}.masked_fill({1}, 0.0)"),
    ("mask", "{0} > 0", "torch.where({1}, {0}, 2 * {0})"),
    ("keep", "torch.ones_like({0}) > 0", "{0}[{1}]"),
    ("idx", "torch.tensor([0])", "{0}.index_add(0, {1}, {0}[:1])"),
)
PICKER_WRITES = (
    "{0}.zero_()",
    "{0}[0] = 0",
    "{0}.fill_(1)",
    "{0}.copy_({0}.clone())",
    "{0} |= True",
    "{0} *= 0",
    "{0}[...] = 0",
    "{0}.clamp_(0, 1)",
    "{0}.logical_not_()",
    "{0}.random_(0, 1)",
    "{0}.mul_(1)",
)

# Modules by their constructor; `{n}` is the size of the last dimension.
MODULES = (
    "nn.Linear({n}, {n})",
    "nn.Tanh()",
    "nn.ReLU()",
    "nn.LayerNorm({n})",
    "nn.Sigmoid()",
    "nn.Dropout(0.5)",
    "nn.BatchNorm1d({n})",
    "nn.Sequential(nn.Linear({n}, {n}), nn.Tanh())",
    "nn.Sequential(nn.Linear({n}, {n}), nn.ReLU(), nn.Linear({n}, {n}))",
    "nn.Softmax(dim=-1)",
    "nn.GRUCell({n}, {n})",
    "nn.PReLU()",
    "nn.LSTMCell({n}, {n})",
    "nn.GRU({n}, {n}, batch_first=True)",
    "nn.MultiheadAttention({n}, 1)",
    "nn.utils.parametrizations.spectral_norm(nn.Linear({n}, {n}))",
    "nn.TransformerEncoderLayer({n}, 1, 4, dropout=0.0)",
    "nn.Bilinear({n}, {n}, {n})",
    "nn.ReLU(inplace=True)",
    "nn.Sequential(nn.Linear({n}, {n}), nn.ReLU(inplace=True))",
    "Scaler({n})",
    "nn.BatchNorm1d({n}, momentum=0.3)",
)

WRITES = (
    "{0} += 1",
    "{0} *= 0.5",
    "{0} -= 0.1",
    "{0} /= 2",
    "{0} += {1}",
    "{0} *= {1}",
    "{0}.add_(1)",
    "{0}.mul_(2)",
    "{0}.sub_({1})",
    "{0}.div_({1})",
    "{0}.zero_()",
    "{0}.fill_(0.5)",
    "{0}.neg_()",
    "{0}.exp_()",
    "{0}.sigmoid_()",
    "{0}.relu_()",
    "{0}.tanh_()",
    "{0}.clamp_(min=0)",
    "{0}.clamp_(-1, 1)",
    "{0}.copy_({1})",
    "{0}.copy_(torch.ones_like({0}))",
    "{0}.normal_()",
    "{0}.masked_fill_({0} > 0, 0.0)",
    "{0}.index_fill_(0, torch.tensor([0]), 1.0)",
    "{0}.addcmul_({1}, {1})",
    "{0}.add_({1}, alpha=0.5)",
    "{0}.lerp_({1}, 0.5)",
    "{0}[0] = 0",
    "{0}[0] += 1",
    "{0}[..., 0] = 1.0",
    "{0}[:1] *= 2",
    "{0}[{0} > 0] = 0",
    "{0}[...] = {1}",
    "{0}[0].zero_()",
    "{0}.view(-1).mul_(2)",
    "{0}[..., -1].sub_({0}[..., 0].detach())",
    "{0}.t_()",
    "F.relu({0}, inplace=True)",
    "F.relu_({0})",
    "F.leaky_relu({0}, 0.1, inplace=True)",
    "F.dropout({0}, 0.5, True, True)",
    "nn.ReLU(inplace=True)({0})",
    "torch.relu_({0})",
    "torch.exp({0}, out={0})",
    "torch.add({0}, 1, out={0})",
    "torch._foreach_mul_([{0}], 0.5)",
    "torch._foreach_add_([{0}, {1}], 1)",
    "torch._foreach_zero_([{0}])",
    "torch._foreach_addcmul_([{0}], [{1}], [{1}], 0.1)",
    "torch._foreach_copy_([{0}], [{0}.detach() + 1])",
    "torch.mul({0}, {1}, out={0})",
    "torch.cumsum({0}, 0, out={0})",
    "nn.init.zeros_({0})",
    "nn.init.normal_({0}, std=0.1)",
    "{0}.data.mul_(2)",
    "{0}.data = {0}.data * 2",
    "{0}.detach().add_(1)",
    "operator.iadd({0}, 1)",
    "{0}.__imul__(2)",
    "torch.clamp_({0}, 0, 1)",
    "nn.utils.clip_grad_norm_([{0}], 1.0)",
    "print({0}.mul_(2).sum())",
    "[item.mul_(2) for item in [{0}]]",
    "for row in {0}: row += 1",
    "if {0}.dim() < 9: {0}.add_(1)",
    "(lambda value: value.mul_(3))({0})",
    "list(map(torch.Tensor.zero_, [{0}]))",
    "scale_({0})",
    "setattr(box, 'value', {0}.mul_(2))",
    "box.value = {0}; box.value += 1",
    "kept = {0}; kept -= 1; del kept",
    "({0}).t().add_(1)",
    "torch.Tensor.add_({0}, 1)",
    "getattr({0}, 'mul_')(0.5)",
    "[*map(lambda t: t.sub_(1), ({0},))]",
    "{0}.grad_fn and {0}.add_(1)",
    "halve({0})",
    "{0}.add_(1) if {0}.dim() else {0}.mul_(2)",
    "{0}.set_({0}.clone())",
    "nn.Hardtanh(inplace=True)({0})",
    "nn.init.uniform_({0}.data)",
    "vector = nn.utils.parameters_to_vector([{0}]); nn.utils.vector_to_parameters(vector, [{0}])",
    "{0}.detach().numpy()[...] = 0",
    "with torch.no_grad(): {0}.add_(0.1)",
    "torch.no_grad()(lambda: {0}.mul_(0.9))()",
    "torch.sub({1}, 1, out={0})",
    "torch.matmul({0}, {1}, out={0})",
    "{0}.addmm_({0}, {1})",
    "{0}.baddbmm_({0}, {0})",
    "{0}.scatter_(0, torch.zeros_like({0}, dtype=torch.long), 1.0)",
    "{0}.index_add_(0, torch.tensor([0]), {1}[:1])",
    "{0}.index_copy_(0, torch.tensor([0]), {0}[:1].clone())",
    "{0}.cumsum_(0)",
    "{0}.tril_()",
    "{0}.erfinv_()",
    "{0}.renorm_(2, 0, 1.0)",
    "{0}.diagonal().fill_(1)",
    "{0}.unsqueeze_(0).squeeze_(0)",
    "{0}.requires_grad_()",
    "{0}.real.mul_(2)",
    "F.threshold_({0}, 0.1, 0.0)",
    "F.rrelu({0}, training=True, inplace=True)",
    "F.normalize({0}, dim=-1, out={0})",
    "F.silu({0}, inplace=True)",
    "torch.nn.utils.clip_grad_value_([{0}], 0.5)",
    "shift_({0})",
    "torch.vmap(lambda row: row.mul_(2))({0})",
    "[part.add_(1) for part in {0}.split(1)]",
    "nn.init.constant_(tensor={0}, val=0.3)",
)

# Writes in a round-about form, and the plain form of the same write.
PLAIN = {
    "print({0}.mul_(2).sum())": "{0}.mul_(2)",
    "[item.mul_(2) for item in [{0}]]": "{0}.mul_(2)",
    "for row in {0}: row += 1": "{0} += 1",
    "if {0}.dim() < 9: {0}.add_(1)": "{0}.add_(1)",
    "(lambda value: value.mul_(3))({0})": "{0}.mul_(3)",
    "list(map(torch.Tensor.zero_, [{0}]))": "{0}.zero_()",
    "setattr(box, 'value', {0}.mul_(2))": "{0}.mul_(2)",
    "box.value = {0}; box.value += 1": "{0} += 1",
    "kept = {0}; kept -= 1; del kept": "{0} -= 1",
    "({0}).t().add_(1)": "{0}.add_(1)",
    "torch.Tensor.add_({0}, 1)": "{0}.add_(1)",
    "getattr({0}, 'mul_')(0.5)": "{0}.mul_(1)",
    "[*map(lambda t: t.sub_(1), ({0},))]": "{0}.sub_(1)",
    "{0}.grad_fn and {0}.add_(1)": "{0}.add_(1)",
    "{0}.add_(1) if {0}.dim() else {0}.mul_(2)": "{0}.add_(1)",
    "with torch.no_grad(): {0}.add_(0.1)": "{0}.add_(1)",
    "torch.no_grad()(lambda: {0}.mul_(0.9))()": "{0}.mul_(1)",
    "{0}[0].zero_()": "{0}.zero_()",
    "{0}.view(-1).mul_(2)": "{0}.mul_(2)",
    "{0}.detach().add_(1)": "{0}.add_(1)",
    "scale_({0})": "{0}.mul_(1)",
    "halve({0})": "{0} /= 2",
    "shift_({0})": "{0}.add_(1)",
    "[part.add_(1) for part in {0}.split(1)]": "{0}.add_(1)",
    "nn.ReLU(inplace=True)({0})": "F.relu({0}, inplace=True)",
    "F.leaky_relu({0}, 0.1, inplace=True)": "F.leaky_relu({0}, inplace=True)",
}

# A statement that binds `{name}` and writes to what it has just made.
WRITING = (
    "{name} = {0}.sigmoid().mul_(2)",
    "{name} = torch.exp({0}).add_(1)",
    "{name} = F.relu({0}.tanh(), inplace=True)",
    "{name} = {0}.add_(1)",
    "{name} = {0}.mul_(2)",
    "{name} = F.relu({0}, inplace=True)",
    "{name} = F.dropout({0}.exp(), 0.5, True, True)",
    "{name} = torch.relu_({0})",
    "{name} = {0}.softmax(-1).div_(2)",
    "{name} = Twice.apply({0})",
)

# Writes to a view `{0}` of part of a tensor, whose graph node hides what it saves; and which tensor that is.
HIDING = (
    ("{base}[0] *= {other}", "other"),
    ("{base}[:1].mul_({other})", "other"),
    ("{base}[0].div_({other})", "other"),
    ("{base}[:1].exp_()", "base"),
    ("{base}.view(-1).sigmoid_()", "base"),
    ("{base}[..., 0].tanh_()", "base"),
    ("{base}[0].addcmul_({other}, {other})", "other"),
    ("{base}[0].mul_({other}).add_(1)", "other"),
    ("{base}[0].mul_({base}[0])", "itself"),
    ("{base}[:1].div_({base}[:1])", "itself"),
    ("{base}[..., 0].mul_({base}[..., -1])", "itself"),
    ("{base}.view(-1).addcmul_({base}.view(-1), {base}.view(-1))", "itself"),
)

# What a tensor's hook may do to a saved tensor `{0}`, and the plain form of that write. A hook gives back None, or what
# it gives would be taken for a gradient.
HOOKS = {
    "lambda grad: scale_({0})": "{0}.mul_(1)",
    "lambda grad: setattr(box, 'value', {0}.mul_(2))": "{0}.mul_(2)",
    "lambda grad: print(float({0}.zero_().sum()))": "{0}.zero_()",
    "lambda grad: halve({0})": "{0} /= 2",
    "lambda grad: torch._foreach_add_([{0}], 1)": "torch._foreach_add_([{0}], 1)",
    "lambda grad: None if {0}.add_(1) is grad else None": "{0}.add_(1)",
}
# Modules that save what they give out, and hooks on their calls that write to it, with the plain form of the write.
HOOKED = ("nn.Sigmoid()", "nn.Tanh()", "nn.Softmax(dim=-1)", "nn.ReLU()")
MODULE_HOOKS = {
    "lambda module, inputs, output: output.mul_(2)": "{0}.mul_(2)",
    "lambda module, inputs, output: output.add_(1)": "{0}.add_(1)",
    "lambda module, inputs, output: scale_(output)": "{0}.mul_(1)",
    "lambda module, inputs, output: print(tuple(output.clamp_(min=0.1).shape))": "{0}.clamp_(min=0)",
}
# Checkpointed segments that spoil what they have saved themselves, as they are computed again.
SEGMENTS = (
    "lambda t: t.exp().add_(1)",
    "lambda t: t.sigmoid().mul_(2)",
    "lambda t: F.relu(t.tanh(), inplace=True)",
    "lambda t: torch.sqrt(t.abs() + 1).neg_()",
)

# Definitions that a template may use, by the name that it uses them by.
DEFINITIONS = {
    "Cube": """\
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return 3 * x * x * grad
""",
    "Squash": """\
class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y * (1 - y)
""",
    "Gate": """\
class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a
""",
    "Twice": """\
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
""",
    "scale_": """\
def scale_(tensor, factor=0.5):
    \"\"\"Scale a tensor where it stands.\"\"\"
    tensor.mul_(factor)
""",
    "halve": """\
@torch.no_grad()
def halve(*tensors):
    for tensor in tensors:
        tensor /= 2
""",
    "Scaler": """\
class Scaler(torch.nn.Module):
    \"\"\"Scales by a running value, which it keeps in a buffer.\"\"\"

    def __init__(self, size):
        super().__init__()
        self.register_buffer("running", torch.ones(size))

    def forward(self, x):
        self.running.mul_(0.9).add_(x.detach().mean())
        return x * self.running
""",
    "box": """\
class Box:
    value = None


box = Box()
""",
}

# The same for functions that are compiled as they are defined. Each is called once in a program, for the compiler
# writes other nodes from the second call on.
SCRIPTED = {
    "swish": """\
@torch.jit.script
def swish(x):
    return x * torch.sigmoid(x)
""",
    "smooth": """\
@torch.jit.script
def smooth(x):
    y = x.tanh()
    return y * y
""",
    "shift_": """\
@torch.jit.script
def shift_(x) -> None:
    x.add_(1)
""",
}

IMPORTS = {
    "checkpoint": "from torch.utils.checkpoint import checkpoint",
    "operator": "import operator",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "SimpleNamespace": "from types import SimpleNamespace",
}

NAMES = ("x", "h", "out", "feat", "score", "gate", "state", "hidden", "logits", "emb", "attn", "value", "z")

# Where a call of a definition writes: the definition, and the line of it.
WRITERS = {
    "halve(": ("halve", "        tensor /= 2"),
    "scale_(": ("scale_", "    tensor.mul_(factor)"),
    "Twice.apply(": ("Twice", "        x.mul_(2)"),
}
# The same for calls of a module's instance, by the constructor: the line that saves, and the line that writes.
INSIDE = {"Scaler": ("        return x * self.running", "        self.running.mul_(0.9).add_(x.detach().mean())")}
