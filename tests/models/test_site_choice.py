"""A user chooses sites by number or by kernel."""

from __future__ import annotations

import pytest

from dispatchflow.errors import SpecError
from dispatchflow.models import site_choice
from dispatchflow.models.site import Program, Site

KERNELS = ("conv", "matmul_8", "matmul_8", "softmax")
PROGRAM = Program((), tuple(Site(i, "main", False, "exe", name, 0, i) for i, name in enumerate(KERNELS, 1)))
NONE = Program((), ())


def test_numbers_are_looked_up_in_their_order_each_once() -> None:
    assert [site.number for site in site_choice.numbered(PROGRAM, [3, 1, 3], "net")] == [3, 1]
    assert site_choice.numbered(PROGRAM, None, "net") == list(PROGRAM.sites)


def test_a_kernel_names_its_first_site() -> None:
    assert [site_choice.named(PROGRAM, word, "net").number for word in ("4", "matmul_8", "conv")] == [4, 2, 1]


@pytest.mark.parametrize(
    "name",
    [
        "mlp$async_dispatch_0_matmul_16x8_f32",
        "mlp_async_dispatch_0_matmul_16x8_f32",  # CUDA: `$` is not allowed in its names
        "mlp_async_dispatch_0_matmul_16x8_f32.kd",
        'entryPoint = "mlp$async_dispatch_0_matmul_16x8_f32"',
        "mlp$async_dispatch_0_matmul_16x8_f32+0x1f3",
        "mlp$async_dispatch_0_matmul_16x8_f32 [.]",
        "mlp_async_dispatch_0_matmul_16x8_f32(float const*, float*)",
        "*matmul*",
    ],
)
def test_a_kernel_may_be_written_as_another_profiler_shows_it(name: str) -> None:
    assert site_choice.is_kernel("mlp$async_dispatch_0_matmul_16x8_f32", name)
    assert not site_choice.is_kernel("mlp$async_dispatch_1_conv_16x8_f32", name)


@pytest.mark.parametrize("word", ["9", "matmul", "0"])
def test_an_unknown_site_is_an_error_with_the_nearest_known_site(word: str) -> None:
    shown, nearest = {"9": ("9", "4, softmax"), "0": ("0", "1, conv")}.get(word, ("'matmul'", "2, matmul_8"))
    with pytest.raises(SpecError) as raised:
        site_choice.named(PROGRAM, word, "net")
    assert str(raised.value) == (
        f"there is no site {shown}:\n  case     net\n  sites    1 … 4\n  nearest  {nearest}\n"
        "doit 'sites:CASE' shows all."
    )
    assert raised.value.exit_code == 2
    if word.isdecimal():
        with pytest.raises(SpecError) as again:
            site_choice.numbered(PROGRAM, [1, int(word)], "net")
        assert str(again.value) == str(raised.value)


def test_naming_a_site_of_a_program_without_sites_is_an_error() -> None:
    for look in (lambda: site_choice.numbered(NONE, None, "net"), lambda: site_choice.named(NONE, "conv", "net")):
        with pytest.raises(SpecError, match="the program launches no dispatch"):
            look()
