from __future__ import annotations

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.devices import (
    devices_to_cpu,
    drop_anomaly_mode,
    drop_seeds,
    full_precision,
    loaders_in_process,
    unwrap_models,
)

TORCH = "import torch\n"


def first(pass_: object, before: str) -> str:
    """What `before`, after an import of torch, becomes by the first patch of the pass."""
    return patches_of(pass_, TORCH + before)[0].removeprefix(TORCH)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = y.cuda()\n", "x = y\n"),
        ("x = y.cuda(non_blocking=True).sum()\n", "x = y.sum()\n"),
        ("x = y.to(device)\n", "x = y\n"),
        ("x = y.to(self.device, non_blocking=True)\n", "x = y\n"),
        ("x = y.to(cfg['device'])\n", "x = y\n"),
        ("x = y.to('cuda:0')\n", "x = y.to('cpu')\n"),
        ("x = f(y, device=d)\n", "x = f(y)\n"),
        ("d = torch.device('cpu')\n", "d = 'cpu'\n"),
        ("d = 'cuda' if torch.cuda.is_available() else 'cpu'\n", "d = 'cpu'\n"),
        ("d = 'cpu' if not torch.cuda.is_available() else 'cuda'\n", "d = 'cpu'\n"),
        ("torch.cuda.empty_cache()\nf()\n", "f()\n"),
        ("torch.backends.cudnn.benchmark = True\nf()\n", "f()\n"),
        ("model.cuda()\nf()\n", "f()\n"),
    ],
)
def test_devices_become_the_cpu_or_go(before: str, after: str) -> None:
    assert after in [text.removeprefix(TORCH) for text in patches_of(devices_to_cpu, TORCH + before)]


@pytest.mark.parametrize(
    "text", ["x = y.to(torch.float16)\n", "x = y.to(other)\n", "x = torch.cuda\n", "d = 'cudad'\n", "x = y.to(z, 3)\n"]
)
def test_what_names_no_device_stays(text: str) -> None:
    assert patches_of(devices_to_cpu, TORCH + text) == []


def test_all_devices_change_at_once_before_each_is_tried() -> None:
    before = "d = 'cuda'\nx = y.to(device)\nz = f(device=d)\n"
    assert patches_of(devices_to_cpu, before) == [
        "d = 'cpu'\nx = y\nz = f()\n",
        "d = 'cuda'\nx = y.to(device)\nz = f()\n",
        "d = 'cuda'\nx = y\nz = f(device=d)\n",
        "d = 'cpu'\nx = y.to(device)\nz = f(device=d)\n",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("l = DataLoader(d, num_workers=2, prefetch_factor=4, shuffle=True)\n", "l = DataLoader(d, shuffle=True)\n"),
        ("WORKERS = 4\n", "WORKERS = 0\n"),
        (
            "p.add_argument('--num-workers', type=int, default=4)\n",
            "p.add_argument('--num-workers', type=int, default=0)\n",
        ),
        ("def f(workers=4): ...\n", "def f(workers=0): ...\n"),
        ("n_workers: int = 4\n", "n_workers: int = 0\n"),
    ],
)
def test_data_is_loaded_without_workers(before: str, after: str) -> None:
    assert first(loaders_in_process, before) == after


def test_other_numbers_are_no_workers() -> None:
    assert patches_of(loaders_in_process, "epochs = 4\nf(workers=0, default=3)\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m = torch.compile(make(), mode='x')\n", "m = make()\n"),
        ("m = torch.nn.parallel.DistributedDataParallel(m)\n", "m = m\n"),
        ("m = torch.jit.script(m)\nm.module.f()\n", "m = m\nm.f()\n"),
    ],
)
def test_a_wrapped_model_is_unwrapped(before: str, after: str) -> None:
    assert first(unwrap_models, before) == after


def test_an_attribute_called_module_stays_where_nothing_is_wrapped() -> None:
    assert patches_of(unwrap_models, "m.module.f()\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with torch.autocast('cuda'):\n    f()\n", "f()\n"),
        ("with torch.cuda.amp.autocast(), g():\n    f()\n", "with g():\n    f()\n"),
        ("x = y.half().sum()\n", "x = y.sum()\n"),
        ("x = y.to(torch.float64)\n", "x = y\n"),
        ("x = torch.ones(1, dtype=torch.double)\n", "x = torch.ones(1)\n"),
        ("torch.set_default_dtype(torch.float64)\nf()\n", "f()\n"),
        (
            "s = torch.cuda.amp.GradScaler()\ns.scale(a + b).backward()\ns.unscale_(o)\ns.step(o)\ns.update()\n",
            "(a + b).backward()\no.step()\n",
        ),
    ],
)
def test_precision_becomes_the_default(before: str, after: str) -> None:
    assert first(full_precision, before) == after


@pytest.mark.parametrize("text", ["x = y.to(torch.long)\n", "x = float(y)\n", "with torch.no_grad():\n    f()\n"])
def test_what_sets_no_precision_stays(text: str) -> None:
    assert patches_of(full_precision, TORCH + text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.manual_seed(0)\nf()\n", "f()\n"),
        ("torch.cuda.manual_seed_all(0)\nf()\n", "f()\n"),
        ("import numpy as np\nnp.random.seed(0)\n", "import numpy as np\n"),
        ("g = torch.Generator().manual_seed(1)\nx = torch.rand(2, generator=g)\n", "x = torch.rand(2)\n"),
    ],
)
def test_seeds_and_generators_go(before: str, after: str) -> None:
    assert first(drop_seeds, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.autograd.set_detect_anomaly(True)\nf()\n", "f()\n"),
        ("torch.autograd.set_detect_anomaly = True\nf()\n", "f()\n"),
        ("with torch.autograd.set_detect_anomaly(True):\n    f()\n", "f()\n"),
    ],
)
def test_anomaly_mode_is_left_off(before: str, after: str) -> None:
    assert first(drop_anomaly_mode, before) == after
