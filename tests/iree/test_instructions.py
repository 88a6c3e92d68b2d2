"""The outputs of `perf annotate` and `objdump` are read.

Two pieces of code are equal if only their addresses differ."""

from __future__ import annotations

import pytest

from dispatchflow.iree import instructions

PERF = """\
 Percent |	Source code & Disassembly of iree_dylib_x_mem_.so for cpu-clock (522 samples, percent: local period)
-------------------------------------------------------------------------------------------------------------------
         :
         : 3    Disassembly of section .text:
         :
         : 5    0000000000001000 <main_dispatch_0_matmul>:
         : 6    main_dispatch_0_matmul():
         : 7    -:1
    0.38 :   1000:   push   %rbp
    0.00 :   1001:   mov    %rsp,%rbp
   54.21 : 12  1060: vmovaps -0xf00(%r8),%zmm21
   45.41 :   10cf:   vfmadd231ps -0x6fc(%rcx,%rdi,4){1to16},%zmm21,%zmm0
"""

OBJDUMP = """
code.so:     file format elf64-x86-64

Disassembly of section .text:

0000000000001000 <kernel>:
    1000:	push   %rbp
    1001:	vmulss 0x1074(%rip),%xmm0,%xmm0        # 2b00 <_fini+0x10>
    1009:	call   1100 <expf>
    100e:	jne    1001 <kernel+0x1>
    1010:	ret
    1011:	nopw   0x0(%rax,%rax,1)

0000000000001100 <expf>:
    1100:	ret
"""

EMBEDDED = """
0000000000005440 <iree_hal_executable_library_query-0x630>:
    5440:	xor    %eax,%eax
    5450:	push   %rbp
    5451:	vmulss 0x9(%rip),%xmm0,%xmm0        # 7b00 <iree_hal+0x1080>
    5459:	call   5700 <iree_hal+0x5>
    545e:	jne    5451 <iree_hal_executable_library_query-0x20>
    5460:	ret
    5461:	int3
"""


def test_samples_of_instructions_are_read() -> None:
    found = instructions.annotated(PERF)
    assert found is not None and found.samples == 522 and len(found.instructions) == 4
    assert [(each.address, each.text, round(each.share, 6)) for each in found.hottest(2)] == [
        (0x1060, "vmovaps -0xf00(%r8),%zmm21", 0.5421),
        (0x10CF, "vfmadd231ps -0x6fc(%rcx,%rdi,4){1to16},%zmm21,%zmm0", 0.4541),
    ]
    assert len(found.hottest(20)) == 3  # one instruction has no sample
    assert instructions.annotated("Error:\nThe perf.data data has no samples!\n") is None


def test_the_same_code_at_another_place_is_the_same() -> None:
    kernel = instructions.function(OBJDUMP, "kernel")
    assert [each.address for each in kernel] == [0x1000, 0x1001, 0x1009, 0x100E, 0x1010, 0x1011]
    assert instructions.contains(instructions.everything(EMBEDDED), kernel)
    assert instructions.function(OBJDUMP, "kern") == []
    assert not instructions.contains(instructions.everything(EMBEDDED), [])


@pytest.mark.parametrize(
    ("old", "new"),
    (("%xmm0,%xmm0", "%xmm0,%xmm1"), ("jne    5451", "jne    5450"), ("call   5700", "call   5450"), ("ret", "leave")),
)
def test_other_instructions_are_another_code(old: str, new: str) -> None:
    kernel = instructions.function(OBJDUMP, "kernel")
    assert not instructions.contains(instructions.everything(EMBEDDED.replace(old, new)), kernel)
