# SPDX-License-Identifier: Apache-2.0
"""The matrix units' instructions are found in PTX, whatever else it has."""

import pytest

from snippets.models import scaled_dot_compiled as module

PTX = """
    wgmma.wait_group.sync.aligned 0;
    wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 0;
    @%p1 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [ %r1 + 0 ], %rd3;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd4];
"""


def test_finds_the_instructions():
    assert module.instructions(PTX) == [
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32",
    ]


def test_compiling_refuses_the_interpreter():
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1 is set"):
        module.compiled("mxfp8", "sm_90")
